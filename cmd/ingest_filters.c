/* The FFmpeg filters that graphs may use: they make or change pictures, and do not access files, devices, plugins or other programs. */
#include <stdio.h>
#include <string.h>

#include "cmd/ingest.h"

static const char filters[] =
    " "
    "aevalsrc aformat allrgb allyuv alphaextract alphamerge amplify anoisesrc anullsrc atadenoise avectorscope avgblur backgroundkey bbox "
    "bilateral bitplanenoise blackdetect blackframe blend blockdetect blurdetect bm3d boxblur bwdif cas cellauto chromahold chromakey "
    "chromanr chromashift ciescope codecview color colorbalance colorchannelmixer colorchart colorcontrast colorcorrect colorhold "
    "colorize colorkey colorlevels colormap colormatrix colorspace colorspectrum colortemperature concat convolution convolve copy crop "
    "cropdetect curves datascope dblur dctdnoiz deband deblock decimate deconvolve dedot deflate deflicker dejudder delogo despill "
    "detelecine dilation displace doubleweave drawbox drawgraph drawgrid edgedetect elbg entropy epx eq erosion estdif exposure "
    "extractplanes fade feedback fftdnoiz fftfilt field fieldmatch fieldorder fifo fillborders floodfill format fps framepack framerate "
    "framestep freezedetect freezeframes fspp gblur geq gradfun gradients grayworld greyedge guided haldclut haldclutsrc hflip histeq "
    "histogram hqdn3d hqx hstack hsvhold hsvkey hue huesaturation hysteresis identity idet il inflate interlace interleave kerndeint "
    "kirsch lagfun latency lenscorrection life limitdiff limiter loop lumakey lut lut2 lutrgb lutyuv mandelbrot maskedclamp maskedmax "
    "maskedmerge maskedmin maskedthreshold maskfun median mergeplanes mestimate midequalizer minterpolate mix monochrome morpho "
    "mpdecimate mptestsrc msad multiply negate nlmeans noformat noise normalize null nullsrc oscilloscope overlay owdenoise pad "
    "pal100bars pal75bars palettegen paletteuse perlin perms perspective phase photosensitivity pixdesctest pixelize pixscope pp pp7 "
    "premultiply prewitt pseudocolor pullup qp random readeia608 readvitc remap removegrain repeatfields reverse rgbashift rgbtestsrc "
    "roberts rotate sab scale scale2ref scdet scharr scroll segment select selectivecolor separatefields setdar setfield setparams setpts "
    "setrange setsar settb shear showfreqs showinfo showpalette showspectrum showwaves shuffleframes shufflepixels shuffleplanes sidedata "
    "sierpinski signalstats sine siti smartblur smptebars smptehdbars sobel split spp stereo3d super2xsai swaprect swapuv tblend telecine "
    "testsrc testsrc2 thistogram threshold thumbnail tile tinterlace tlut2 tmedian tmidequalizer tmix tonemap tpad transpose trim "
    "unpremultiply unsharp untile v360 vaguedenoiser varblur vectorscope vflip vfrdet vibrance vif vignette vstack w3fdif waveform weave "
    "xbr xcorrelate xfade xmedian xstack yadif yaepblur yuvtestsrc zoneplate zoompan zscale ";

int filter_allowed(const char *name)
{
	char word[64];

	return snprintf(word, sizeof word, " %s ", name) < (int)sizeof word && strstr(filters, word) != NULL;
}
