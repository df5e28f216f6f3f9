/* The version of the toolkit, and of its stamps. */
#ifndef DDM_CORE_VERSION_H
#define DDM_CORE_VERSION_H

/* Part of every stamp: change it when results change. */
#define DDM_VERSION "0.1"

#endif
