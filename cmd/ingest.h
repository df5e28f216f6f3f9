/* The parts of ddm-ingest. Files that FFmpeg decodes, and filter graphs, are untrusted: a program of its own, the decoder (cmd/ingest_decoder.c),
 * decodes one file or renders a few graphs in a sandbox and writes frames to a pipe. The parent checks all that it reads from the pipe. */
#ifndef DDM_CMD_INGEST_H
#define DDM_CMD_INGEST_H

#include <jansson.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"
#include "core/jobshare.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/sizebuckets.h"
#include "data/scenes.h"
#include "data/shotnet.h"
#include "file/nametable.h"
#include "file/still.h"

/* argv[0] of a decoder; argv[1]: decode, decode without a filter of system calls, or print the versions of FFmpeg's libraries. */
#define DECODER_NAME "ingest-decoder"
#define DECODER_SERVE "--serve-frames"
#define DECODER_BARE "--serve-frames-bare"
#define DECODER_VERSIONS "--versions"

enum { DECODER_MEDIA_FD = 3 /* the file to decode */, DECODER_TEXT_MAX = 900 /* bytes of an error message */ };

/* Limit on the processor time of a decoder; the kernel kills it there. */
#define INGEST_CPU_SECONDS (6 * 3600)

enum media_kind { MEDIA_NONE, MEDIA_STILL, MEDIA_PICTURE, MEDIA_VIDEO, MEDIA_TAR };

/* The kind of a file by its first bytes: MEDIA_STILL for a picture that file/still.h decodes, MEDIA_PICTURE for one that FFmpeg decodes (GIF, BMP,
 * TIFF, AVIF, HEIC), MEDIA_VIDEO, MEDIA_TAR for a possible tar, else MEDIA_NONE. */
enum media_kind media_sniff(const uint8_t *data, size_t len);

/* 1 if the name ends like that of a picture or video. Such a file in a folder is bad if its content is neither. */
int media_named(const char *path);

/* Frames scaled down: none; for the detectors of data/scenes.h; for TransNet V2 (data/shotnet.h), turned as the video is shown. */
enum glimpses { GLIMPSES_NONE, GLIMPSES_SCENES, GLIMPSES_TRANSNET };

struct decode_limits {
	int64_t frames;     /* most frames of one file or graph; for clips: most targets; 0: no limit */
	double fps;         /* frames per second taken from a video; 0: all. For clips: targets per second */
	int clips;          /* 1: send the frames that are shown at the targets of data/clipgrid.h */
	int glimpses;       /* enum glimpses: for clips, how each frame is sent scaled down, too */
	int64_t max_pixels; /* most pixels of a frame */
	double timeout;     /* seconds without a frame after which the decoder is killed; 0: wait */
	uint64_t set_aside; /* bytes of the process's share that are left to the decoder of sound */
	int bare;           /* 1: no filter of system calls */
	int alone;          /* 1: no other decoder runs, so take the whole budget at once */
	int64_t size;       /* side to which the parent resizes frames, for the estimate of memory; 0: not resized */
	int planes;         /* 1: send planes of video that is at least twice as large as `size`, because they are resized sooner */
	struct budget *budget;
};

enum frame_kind { FRAME_PIXELS = 1, FRAME_ITEM_END, FRAME_END, FRAME_ERROR, FRAME_GLIMPSE /* a frame scaled down */ };

/* What is known of a frame. */
struct frame_facts {
	uint64_t kind;           /* enum frame_kind */
	uint64_t item;           /* index of the graph; 0 for a file */
	uint64_t index;          /* of the frame among those sent, from 0; for clips among those decoded. Of FRAME_ERROR: the error code */
	int64_t start;           /* the beginning of the file by its own clock; nanoseconds */
	int64_t time, length;    /* presentation time since the beginning of the file, and how long the frame is shown; nanoseconds. Of glimpses: 0 */
	uint64_t first, targets; /* for clips, of FRAME_PIXELS: the targets at which the frame is shown */
	uint64_t segment;        /* the same: number of gaps in time before the frame */
	uint32_t planes;         /* 1: three planes (file/yuv.h); 0: RGB */
	uint32_t shift_x, shift_y, full; /* of planes, as in struct yuv */
	int32_t matrix[4];
	uint32_t width, height;
};

/* The header of each message of a decoder. `size` bytes follow: of FRAME_PIXELS and FRAME_GLIMPSE the pixels (height, width, 3) or the planes, of
 * FRAME_ERROR a text, else none. */
struct frame_head {
	uint64_t magic; /* FRAME_MAGIC */
	uint64_t size;
	struct frame_facts facts;
};

/* Bytes of the pixels of a frame. */
uint64_t frame_size(const struct frame_facts *f);

#define FRAME_MAGIC 0x324d5244u

/* A decoder process and the parent's end of its pipe. Zero-initialised: no process. */
struct decoder {
	const char *gives; /* NULL: frames; else what it gives, for messages */
	pid_t pid;         /* 0: not running */
	int fd;            /* the pipe */
	const char *name;  /* of the source, for messages; borrowed */
	struct decode_limits limits;
	uint64_t item, next_index, items; /* the next frame's graph and index; number of graphs, 0 for a file */
	uint64_t glimpses, next_target;   /* for clips: number of glimpses of this file or graph; the next target */
	/* For a restart: */
	int media;            /* descriptor of the file, or -1 */
	char **graphs;        /* (items), owned */
	uint64_t given, skip; /* frames handed out so far; frames that a restarted process repeats, still to be dropped */
	int killed, kills;    /* signal from outside that killed the process, or 0; number of such signals */
	int silent;           /* 1: no data came for `timeout` */
	uint64_t granted;     /* bytes taken from the budget */
};

/* Wait for a share of the budget, then start a decoder for the open file `fd` (which stays the caller's) or for n graphs. ERR_UNAVAILABLE if it
 * cannot be started. Close with decoder_close, also after failure. */
int decoder_open_file(struct decoder *d, int fd, const char *name, const struct decode_limits *l, struct err *e);
int decoder_open_graphs(struct decoder *d, char **graphs, int n, const char *name, const struct decode_limits *l, struct err *e);

/* Read the next frame: 1, with the picture in *p (caller frees with picture_release), of planes with their bytes in one row and one channel, and what
 * is known of it in *f; 0 at the end; -1 on error.
 * ERR_DATA: the decoder reports damage, crashes, sends nothing for `timeout` or sends an invalid message. A decoder that another process
 * or the kernel's out-of-memory killer kills is restarted and continues with the same frame; the second time is ERR_UNAVAILABLE. A decoder that fails
 * with less than the whole budget is restarted with the whole budget when no other decoder runs, so the result does not depend on the number of
 * threads. stop() is called a few times a second; if it returns non-zero, the error is ERR_AGAIN. */
int decoder_next(struct decoder *d, struct picture *p, struct frame_facts *f, int (*stop)(void), struct err *e);
void decoder_close(struct decoder *d); /* kills the process if it still runs */

/* For decoders of another kind. Start the process of `d`, whose name and limits are set, with standard input `in` (-1: none) and the file `media`
 * (-1: none). */
int decoder_spawn(struct decoder *d, int in, int media, char **argv, struct err *e);
/* Read exactly n bytes: 0; -1 on error. If another process killed it, d->killed is the signal and *e stays empty. *last_byte is the time at which
 * data last came, by clock_seconds. */
int decoder_receive(struct decoder *d, void *to, size_t n, double *last_byte, int (*stop)(void), struct err *e);
/* Read a decoder's last message, of `size` bytes, and make it the error. code: an error code, of which only some are taken over. */
int decoder_receive_error(struct decoder *d, uint64_t size, int64_t code, double *last_byte, int (*stop)(void), struct err *e);
int decoder_nonsense(const struct decoder *d, struct err *e); /* ERR_DATA: an invalid reply */
void decoder_kill(struct decoder *d);                         /* and wait for its end */

/* 0 under the address sanitizer, whose shadow memory needs terabytes of address space. */
#if defined(__SANITIZE_ADDRESS__)
#define SANDBOX_LIMITS_MEMORY 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANDBOX_LIMITS_MEMORY 0
#endif
#endif
#ifndef SANDBOX_LIMITS_MEMORY
#define SANDBOX_LIMITS_MEMORY 1
#endif

/* Restrict the decoder process: limits of processor time and memory, no new privileges, and, unless `bare`, no system calls except for memory, time
 * and open descriptors. memory: limit in bytes of private writable memory, 0: none. ERR_FAIL if the kernel cannot filter system calls. */
int sandbox_enter(uint64_t memory, int bare, struct err *e);

/* 1 if graphs may use the FFmpeg filter of this name. */
int filter_allowed(const char *name);

/* Decode the file on descriptor 3, or render a graph. Each frame is passed to put as RGB pixels (height, width, 3), or as the three planes that
 * f says. If put returns non-zero, decoding stops and the call returns 0. */
typedef int frame_put(void *arg, const struct frame_facts *f, const uint8_t *pixels);
int media_decode(const struct decode_limits *l, frame_put *put, void *arg, struct err *e);
int media_render(const char *graph, const struct decode_limits *l, frame_put *put, void *arg, struct err *e);

/* Append the versions of FFmpeg's libraries, "libavcodec 59.37.100 ...". Another version may give other pixels, so stamps record them. The first is
 * the decoder's; the second asks it, and fails with ERR_UNAVAILABLE if it cannot be started. */
void media_library_versions(struct str *out);
int media_versions(struct str *out, struct err *e);

/* A unit of work: a file, or the instances of a graph for `count` seeds from `seed`. */
struct job {
	char *key;            /* of a picture; of a video or graph, the part before "@FRAME" (of a graph, for its first seed) */
	char *path;           /* NULL for a graph */
	char *below;          /* the path below the operand; if it was given or listed itself, without leading "/", "./" and "../" */
	enum media_kind kind; /* MEDIA_NONE for a file: bad, for the reason in `why` */
	char *why;
	const char *graph, *name; /* text and name of a graph; borrowed from the operands and from job_list.names */
	int seeded, digits;       /* 1: the graph has placeholders; digits of a seed in keys */
	uint64_t seed;
	int count;
	uint64_t bytes; /* size of the file */
	int whole_name; /* 1: the key is the whole name, because another file's name is equal up to the first dot */
};

/* All jobs and other sources of a run. Zero-initialise. */
struct job_list {
	struct job *v;
	size_t n, cap;
	char **tars; /* paths of tars, in the order found */
	size_t ntars;
	char **idx; /* the same of MNIST's idx files (data/idx.h) */
	size_t nidx;
	char **lists; /* paths of classes.txt in operands that are folders */
	size_t nlists;
	char **beside; /* paths of captions, classes and facts found in folders */
	size_t nbeside;
	char **names;               /* names of graphs */
	size_t nnames, passed_over; /* passed_over: number of other files in folders */
	size_t pictures;            /* pictures passed over, because clips are made */
	size_t hidden;              /* number of pictures and videos whose name begins with a dot, broken links and devices in folders */
	struct str hidden_first;    /* the first three, "'PATH' (REASON), ..." */
};

struct job_options {
	int nul_list, skip_bad; /* as in ingest_request */
	uint64_t seed;
	int64_t seeds, frames; /* instances of a graph; frames of one instance */
	int clips;             /* 1: files beside a video belong to its clips, and pictures are passed over */
};

/* Find every picture, video and graph of the operands `sources` (n), and sort them by the keys of their samples, bytewise. Two files with the same
 * key are ERR_DATA (with skip_bad, the second is bad); equal names of graphs are ERR_USAGE. Release with job_list_release, also after failure. */
int job_list_fill(struct job_list *l, char **sources, int n, const struct job_options *o, struct err *e);
/* Leave out what belongs to other jobs: a file or graph by its key, a tar or an idx file by its path or URL as it was given. */
void job_list_share(struct job_list *l, const struct job_share *share);
void job_list_release(struct job_list *l);

/* The memory limit --max-memory, shared by the pictures and decoders of all threads. All sizes in bytes; total 0: no limit. */
struct budget {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	uint64_t total, used; /* three quarters of the limit, for pictures being decoded and decoder processes; used: taken now */
	uint64_t share;       /* the part of `total` that a decoder gets if others may run beside it */
	uint64_t files;       /* one quarter of the limit: most bytes of a batch of files read ahead, and most of `waiting` */
	uint64_t waiting;     /* frames that wait to be written */
};

/* Set the limits from --max-memory for this number of threads. */
void budget_init(struct budget *b, uint64_t memory, int threads);
void budget_release(struct budget *b);
void budget_take(struct budget *b, uint64_t bytes); /* waits until this much is free; give it back with budget_give */
void budget_give(struct budget *b, uint64_t bytes);
/* The two parts of the bytes granted to a decoder: for its process, and for one frame in this program. */
uint64_t budget_process(uint64_t granted);
uint64_t budget_frame(uint64_t granted);
/* Count a frame that waits to be written; -1 if it does not fit. */
int budget_wait(struct budget *b, uint64_t bytes);
void budget_written(struct budget *b); /* all waiting frames were written */

/* Memory in bytes that a frame needs in this program, from the pipe to its PNG of side `size` (0: not resized). */
uint64_t frame_bytes(uint64_t width, uint64_t height, int64_t size);

/* The options of sound. */
struct sound_options {
	int64_t rate; /* samples a second; 0: no sound */
	int channels; /* 1: mono, 2: stereo */
};

/* The options of clips. */
struct clip_options {
	int64_t frames;          /* of a clip; 0: no clips */
	int64_t stride;          /* targets from the beginning of a clip to that of the next */
	struct scene_rule scene; /* detector SCENES_NONE: a video is one shot */
	int crop;                /* 1: without black bars */
	int grey;                /* 1: of one channel, the luma */
	struct sound_options sound;
	struct transnet *net; /* for the detector SCENES_TRANSNET; borrowed */
};

/* What became of the shots of one or several sources. */
struct clip_tally {
	int64_t clips, cuts;
	int64_t rests, rest_frames; /* ends of shots that are too short for a clip; their targets */
	int64_t repeated;           /* clips left out because they begin with the same frame as the one before */
	int64_t longest;            /* targets of the longest shot */
	int64_t silent;             /* clips of a film without sound */
};

/* The options of decoding. */
struct work_options {
	int64_t size; /* side of the square pictures; 0: not resized, or to a bucket */
	struct buckets buckets;
	const char *resize;   /* a name of resize_filter_names, or "adm" */
	int64_t frames;       /* most frames of one video; 0: all */
	int64_t graph_frames; /* most frames of one instance of a graph */
	double fps, timeout;  /* as in decode_limits */
	uint64_t memory;      /* most bytes that decoding one still may take */
	int64_t max_pixels;   /* of a picture or frame */
	int scores;           /* 1: add scores of pictures and frames to their .json */
	struct scorers *nets; /* networks that score pictures and clips; NULL: none; borrowed */
	int classes;          /* 1: class_set will replace every .cls, so it is not checked */
	int bare;             /* 1: decoders without a filter of system calls */
	int alone;            /* 1: no other job runs; the decoder gets the whole budget, and frames need not wait */
	struct clip_options clip;
	struct pool *pool; /* for the frames of a clip, while no other job runs; NULL: none */
	struct budget *budget;
	int (*stop)(void); /* non-zero: end with ERR_AGAIN */
};

/* Estimate from a picture's header the memory for decoding and resizing it, for budget_take: *bytes, or 0 if there is no limit or the decoder will
 * refuse the picture. ERR_DATA if it exceeds the whole budget. `name` is used in messages. */
int still_budget(struct budget *b, const void *data, size_t len, const char *name, const struct work_options *o, uint64_t *bytes, struct err *e);

/* A member of a sample, as in a tar: KEY.EXT. */
struct item_member {
	char ext[64];
	uint8_t *data;
	size_t len;
};

/* A sample to be written. */
struct item {
	char *key;
	struct item_member *m; /* (n), in bytewise order of the extensions */
	int n;
	uint64_t hash; /* of the pixels; 0: not a picture */
	json_t *facts; /* scores that are to be put into its .json, or NULL; owned */
};

void item_release(struct item *it);
/* Add a copy of data as a member, and keep the order. item_own takes ownership of data instead. */
void item_add(struct item *it, const char *ext, const void *data, size_t len);
void item_own(struct item *it, const char *ext, uint8_t *data, size_t len);
void item_remove(struct item *it, int i); /* member i */

/* The path of NAME.EXT beside the file NAME of a job: of IMG.1.jpg IMG.txt, or if the key is the whole name IMG.1.txt, and IMG.txt where there is
 * none. NULL if there is no such file. Caller frees with mem_free. */
char *sidecar_path(const struct job *j, const char *ext);
/* Add the caption, class and facts beside a file. */
int sidecars_load(struct item *it, const struct job *j, struct err *e);
/* Check that the .cls is a number, because other programs would refuse the sample. With --classes it is replaced anyway and not checked. */
int class_check(const struct item *it, const char *origin, const struct work_options *o, struct err *e);

/* The result of a job: its samples in order, and the error if the job ended early. */
struct result {
	struct item *v;
	int n, cap;
	int unkept; /* 1: the frames did not fit into the budget and were dropped; run the job again alone */
	struct clip_tally tally;
	char *note; /* why no sound of the file can be decoded, or NULL */
	struct err e;
};

void result_add(struct result *r, const struct item *it); /* takes ownership of what *it points to */
void result_release(struct result *r);

/* Make all samples of a job. A picture's sample includes the .cls, .json and .txt beside the file. */
void job_work(struct result *r, const struct job *j, const struct work_options *o);

/* Whether pictures are resized. */
int is_fitted(const struct work_options *o);
/* The most pixels of a resized picture; 0: not resized. */
uint64_t fitted_pixels(const struct work_options *o);
/* The longest side of a resized picture; 0: not resized. */
int64_t fitted_side(const struct work_options *o);
/* The facts of a picture of w x h pixels before it is resized: {"bucket": "64x48"}; NULL without buckets. */
json_t *bucket_facts(const struct work_options *o, int w, int h);
/* Resize p in place as --size or --buckets says. */
int picture_fit(struct picture *p, const struct work_options *o, struct err *e);
/* The same of the rectangle w x h at (x, y) of a frame that the decoder sent. *to is new, unless it is `from`, which is then replaced. */
int frame_fit(struct picture *to, struct picture *from, const struct frame_facts *f, int x, int y, int w, int h, const struct work_options *o,
              struct err *e);
/* Whether the pictures are resized by a filter that frame_fit applies to planes as well. */
int fits_planes(const struct work_options *o);

/* A job whose samples are made one by one. */
struct work {
	const struct job *job;
	struct work_options options;
	struct decoder decoder;
	struct clipper *clips; /* NULL: each frame is a sample */
};

/* Make the samples of a video or graph one by one. work_next returns 1 and *it (caller frees with item_release), 0 at the end, -1 on error. Close
 * with work_close, also after failure. */
int work_open(struct work *w, const struct job *j, const struct work_options *o, struct err *e);
int work_next(struct work *w, struct item *it, struct err *e);
void work_close(struct work *w);

/* The same for clips, from the frames of a decoder that sends frames for clips. clipper_new reads the files beside a video; NULL on error. Free with
 * clipper_free, before the decoder is closed. */
struct clipper *clipper_new(const struct job *j, const struct work_options *o, struct err *e);
int clipper_next(struct clipper *c, struct decoder *d, struct item *it, struct err *e);
/* With --sound, start the decoder of sound of the file that d decodes. */
int clipper_listen(struct clipper *c, const struct decoder *d, struct err *e);
const char *clipper_note(const struct clipper *c);               /* why no sound of the file can be decoded, or NULL; borrowed */
const struct clip_tally *clipper_tally(const struct clipper *c); /* so far; borrowed */
void clipper_free(struct clipper *c);

/* Put it->facts into the sample's .json, after all other members are there. */
int item_finish(struct item *it, const char *origin, struct err *e);
/* Put facts (an object) into the sample's .json; members of the same name are replaced. ERR_DATA if the .json is not an object. */
int facts_merge(struct item *it, const json_t *facts, const char *origin, struct err *e);
struct clip_scores;
/* A number with six significant digits. */
json_t *score_number(double v);
/* Put scores into an object; clip 0: those of a picture only. */
void scores_put(json_t *facts, const struct clip_scores *s, int clip);

/* Check the class and the picture of a sample that was read from a tar, and resize the picture in place. `origin` is used in messages. */
int item_fit(struct item *it, const char *origin, const struct work_options *o, struct err *e);

/* 1 if the job makes many samples: a video or a graph. */
int job_many(const struct job *j);
/* Lengthen equal keys of different files in one folder. The list must be sorted; it is sorted again with sort() after each change. */
void keys_distinguish(struct job_list *l, void sort(struct job_list *l));
/* 1 if the name ends like that of a caption, class, facts or subtitles: .txt, .cls, .json, .srt, .vtt. */
int is_sidecar(const char *path);
/* Count the files of l->beside that belong to no picture, or with `clips` to no video, as passed over, and free the list. */
void sidecars_count(struct job_list *l, int clips);

/* A set of the pixel hashes seen so far, with the key of the first sample of each. Zero-initialised is empty. */
struct seen {
	struct seen_slot {
		uint64_t hash;
		size_t key; /* offset of the sample's key in keys */
	} * slot;
	size_t n, cap;
	struct str keys;
};

/* Add a hash. NULL if it is new, else the key of the earlier sample, borrowed until the next call. */
const char *seen_add(struct seen *s, uint64_t hash, const char *key);
void seen_release(struct seen *s);

/* A class of --classes: a folder or a graph. */
struct class_name {
	char *name, *place; /* place: the sort key */
};

/* Zero-initialised is empty. */
struct class_list {
	struct class_name *v;
	size_t n;
	struct nametable numbers; /* from name to number */
};

/* With `number`, find and number the classes of all sources. *names receives the list of class names for the stamp, or NULL; caller json_decref()s.
 * ERR_DATA if the sources' lists of names contradict each other. */
int classes_find(struct class_list *c, const struct job_list *l, int number, json_t **names, struct err *e);
void class_list_release(struct class_list *c);
/* Set the .cls member of a sample to its class number. j is NULL for a sample of a tar. ERR_USAGE if the sample lies in no folder. */
int class_set(const struct class_list *c, const struct job *j, struct item *it, struct err *e);

/* Append the name of instance i of a graph: "NAME-SEED", or "NAME" without placeholders. */
void job_instance(struct str *out, const struct job *j, int i);

/* Append a graph with its placeholders replaced for one seed (see ddm-ingest(1)). *any: 1 if it has some. ERR_USAGE for an unknown placeholder. */
int graph_expand(struct str *out, const char *graph, uint64_t seed, int *any, struct err *e);

#endif
