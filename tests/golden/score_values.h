/* Made by score_values.py with torch-fidelity, pytorch-fid, clean-fid, numpy. */

static const int64_t golden_permutation_2020[40] = {
    725, 986, 815, 656, 469, 76, 668, 286, 904, 284, 816, 949, 577, 318, 998, 478, 336, 486, 578, 115,
    370, 882, 133, 207, 925, 84, 481, 423, 634, 413, 369, 773, 899, 418, 807, 755, 749, 528, 111, 51,
};

static const int64_t golden_second_choice_7[20] = {
    17, 0, 42, 43, 1, 24, 23, 34, 10, 5, 35, 6, 27, 30, 33, 41, 25, 7, 13, 26,
};

static const double golden_kid = 0.66703828386476327;
static const double golden_kid_sd = 0.099316619422903651;
static const double golden_kid_clean = 0.67706145406474838;
static const double golden_fid = 6.315989252733619;
static const double golden_fid_tf = 6.3159892527336172;
static const double golden_is = 1.95248443721789;
static const double golden_is_sd = 0.13088448809470551;
static const double golden_is_adm = 2.0188042278387188;
static const double golden_is_adm_sd = 0.14030206642968326;
static const double golden_precision = 0.40370368957519531;
static const double golden_recall = 0.36212623119354248;
static const double golden_density = 0.39851851851851855;
static const double golden_coverage = 0.51162790697674421;
static const double golden_authenticity = 0.96296296296296291;
static const double golden_cmmd = 38.418575314911109;
static const double golden_vendi = 15.047441275812767;
static const double golden_vendi_wide = 6.2908665322089385;
static const double golden_clip = 1.8981515803014306;
static const double golden_clip_se = 0.79878985812278114;
