/* Labels and explains the columns of a report. */
#ifndef DDM_PLOT_GLOSSARY_H
#define DDM_PLOT_GLOSSARY_H

struct glossary {
	const char *column;
	const char *label;   /* label of an axis */
	const char *meaning; /* a sentence or two for somebody who has not read the manual */
};

/* The entry of a column, or NULL if it is unknown. METRIC-FEATURES, with one word after the metric, has the entry of METRIC. */
const struct glossary *glossary_find(const char *column);

#endif
