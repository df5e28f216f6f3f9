/* Spearman's rank correlation over few pairs. */
#ifndef DDM_METRIC_SPEARMAN_H
#define DDM_METRIC_SPEARMAN_H

struct spearman {
	double rho;      /* NAN for fewer than 3 pairs, or if all values of one side are equal */
	double p;        /* two-sided: the probability of at least |rho| if all orders are equally likely; NAN without rho */
	double critical; /* the least |rho| with p <= .05 for this number of pairs without ties; NAN for fewer than 5: there is none */
};

/* p and critical count all orders up to this number of pairs. Beyond it they come from Student's t of rho sqrt((n - 2) / (1 - rho^2)). */
enum { SPEARMAN_EXACT = 10 };

/* a (n), b (n): finite. Equal values share the mean of their ranks. */
struct spearman spearman(const double *a, const double *b, int n);

#endif
