/* The stamp of ddm-synth's outputs. data/synth.h declares the table of options. */
#ifndef DDM_DATA_SYNTHOPTIONS_H
#define DDM_DATA_SYNTHOPTIONS_H

#include "data/synth.h"
#include "file/stamp.h"

/* The stamp of a request, without its inputs. Caller frees with stamp_free. */
struct stamp *synth_stamp(const struct synth_request *r);

#endif
