/* Explains the columns of a report. */
#ifndef DDM_PLOT_GLOSSARY_H
#define DDM_PLOT_GLOSSARY_H

struct glossary {
	const char *column;
	const char *label;   /* for a scale */
	const char *meaning; /* a sentence or two for somebody who has not read the manual */
};

/* NULL for a column that is not known. METRIC-FEATURES, one word after the metric, is known by METRIC. */
const struct glossary *glossary_find(const char *column);

#endif
