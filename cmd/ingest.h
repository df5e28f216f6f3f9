/* The parts of ddm-ingest. The program runs itself again as a decoder (ingest_serve) that reads one file, or renders a few
 * filter graphs, inside a sandbox, and writes frames into a pipe; the parent believes nothing it has not checked. */
#ifndef DDM_CMD_INGEST_H
#define DDM_CMD_INGEST_H

#include <jansson.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"
#include "core/str.h"
#include "file/nametable.h"
#include "file/still.h"

/* argv[1] of a decoder, and of one that does without a filter of system calls. */
#define INGEST_SERVE "--serve-frames"
#define INGEST_BARE "--serve-frames-bare"

/* Of a decoder, in all; the kernel kills one that has had them. */
#define INGEST_CPU_SECONDS (6 * 3600)

enum media_kind { MEDIA_NONE, MEDIA_STILL, MEDIA_PICTURE, MEDIA_VIDEO, MEDIA_TAR };

/* By the first bytes of a file: a picture our own decoders read, one that FFmpeg reads (GIF, BMP, TIFF), a video, something
 * that may be a tar, or nothing. */
enum media_kind media_sniff(const uint8_t *data, size_t len);

/* 1 where the name ends as pictures and videos do: such a file in a folder is bad when its content is not one. */
int media_named(const char *path);

struct decode_limits {
	int64_t frames;     /* most of one file or graph; 0: no limit */
	double fps;         /* frames a second taken from a video; 0: all */
	int64_t max_pixels; /* of a frame */
	double timeout;     /* seconds without a frame after which the decoder is killed; 0: wait */
	int bare;           /* no filter of system calls */
	int alone;          /* no other decoder runs: the whole budget at once */
	int64_t size;       /* side that the program resizes frames to; 0: as they are */
	struct budget *budget;
};

/* What the decoder writes: this header, then `size` bytes: pixels (height, width, 3), or a message. */
struct frame_head {
	uint32_t magic, kind; /* FRAME_MAGIC, enum frame_kind */
	uint32_t width, height;
	uint64_t item;  /* which of the graphs; 0 for a file */
	uint64_t index; /* of the frame, from 0 */
	uint64_t size;
};

#define FRAME_MAGIC 0x314d5244u

enum frame_kind { FRAME_PIXELS = 1, FRAME_ITEM_END, FRAME_END, FRAME_ERROR };

/* A running decoder. Zero-initialised is "none". */
struct decoder {
	pid_t pid;
	int fd;
	const char *name; /* of the source, for messages; borrowed */
	struct decode_limits limits;
	uint64_t item, next_index, items;
	/* What it takes to start it again where somebody killed it. */
	int media;            /* the file, or -1 */
	char **graphs;        /* [items] */
	uint64_t given, skip; /* frames that were handed out; those of the second decoder that were so by the first */
	int killed, kills;    /* the signal that killed it, or 0; number of such kills */
	int silent;           /* it was killed after `timeout` */
	uint64_t granted;     /* bytes taken from the budget */
};

/* Start one for the open file `fd` (which stays the caller's), or for n graphs, as soon as the budget has a share for it. ERR_UNAVAILABLE when it
 * cannot be started. */
int decoder_open_file(struct decoder *d, int fd, const char *name, const struct decode_limits *l, struct err *e);
int decoder_open_graphs(struct decoder *d, char **graphs, int n, const char *name, const struct decode_limits *l, struct err *e);

/* The next frame: 1, *p (picture_release) with *item and *index; 0 at the end; -1 and ERR_DATA when the decoder reports
 * damage, dies, is killed for its silence or sends what it must not. One that is killed from outside (by the kernel for want of memory, by its
 * user) is no damage of the source: it is started again and goes on with the same frame; killed again,
 * ERR_UNAVAILABLE. One that fails with less than the whole budget is started again with the whole budget, once no other decoder runs. So the
 * result does not depend on the number of threads. stop(): asked a few times a second; non-zero ends with ERR_AGAIN. */
int decoder_next(struct decoder *d, struct picture *p, uint64_t *item, uint64_t *index, int (*stop)(void), struct err *e);
void decoder_close(struct decoder *d); /* kills it where it still runs */

/* main() of a decoder; argc and argv as it was started. */
int ingest_serve(int argc, char **argv);

/* 0: the address sanitizer's shadow needs terabytes of address space. */
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

/* In the decoder: limits, no new privileges, no system calls but for memory and the descriptors that are open; bare: only the limits, as the
 * kernel cannot do the rest. memory: bytes of private writable memory, 0: no limit. */
int sandbox_enter(uint64_t memory, int bare, struct err *e);

/* 1 when a graph may use the filter. */
int filter_allowed(const char *name);

/* Decode the file on descriptor 3, or render a graph, handing frames to put (RGB, rows of width * 3 bytes, from 0 in order),
 * whose non-zero return ends the call with 0. */
typedef int frame_put(void *arg, const uint8_t *rgb, int width, int height, uint64_t index);
int media_decode(const struct decode_limits *l, frame_put *put, void *arg, struct err *e);
int media_render(const char *graph, const struct decode_limits *l, frame_put *put, void *arg, struct err *e);

/* Versions of the linked libraries, "libavcodec 59.37.100 ...": they may change pixels, so they belong in a stamp. */
void media_versions(struct str *out);

/* What there is to do: a file, or the instances of a graph for `count` seeds from `seed`. */
struct job {
	char *key;            /* of a picture; of a video or graph the part before "@FRAME" (a graph's: of its first seed) */
	char *path;           /* NULL for a graph */
	enum media_kind kind; /* MEDIA_NONE: bad, for the reason in `why` */
	char *why;
	const char *graph, *name; /* borrowed from the sources */
	int seeded, digits;       /* the graph has placeholders; digits of a seed in keys */
	uint64_t seed;
	int count;
	uint64_t bytes; /* of the file */
	int whole_name; /* the key is made of the whole name, because another file's name is equal up to the first dot */
};

struct job_list {
	struct job *v;
	size_t n, cap;
	char **tars; /* operands that are tars, in the order given */
	size_t ntars;
	char **lists; /* classes.txt of operands that are folders */
	size_t nlists;
	char **beside; /* files in folders that may belong to a picture */
	size_t nbeside;
	char **names;               /* of graphs */
	size_t nnames, passed_over; /* files in folders that are neither picture nor video */
	size_t hidden;              /* pictures in folders whose name begins with a dot, links to no file, devices */
	struct str hidden_first;    /* "'PATH' (REASON), ..." of the first three */
};

struct job_options {
	int nul_list, skip_bad;
	uint64_t seed;
	int64_t seeds, frames; /* frames of one instance */
};

/* Every picture, video and graph of the operands, in bytewise order of the keys of their samples. Equal keys of different folders: ERR_DATA,
 * or with skip_bad the later file is bad. */
int job_list_fill(struct job_list *l, char **sources, int n, const struct job_options *o, struct err *e);
void job_list_release(struct job_list *l);

/* --max-memory: the bytes that the pictures and decoders of all threads may use together; total 0: no limit. */
struct budget {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	uint64_t total, used; /* three quarters: pictures being decoded, and decoder processes */
	uint64_t share;       /* part of `total` for one of several decoders */
	uint64_t files;       /* one quarter: files read ahead (the program limits its batches to it), and `waiting` */
	uint64_t waiting;     /* frames that wait to be written; at most `files` */
};

void budget_init(struct budget *b, uint64_t memory, int threads);
void budget_release(struct budget *b);
void budget_take(struct budget *b, uint64_t bytes); /* waits until they are free */
void budget_give(struct budget *b, uint64_t bytes);
/* Parts of a decoder's share: for its process, and for one frame inside this program. */
uint64_t budget_process(uint64_t granted);
uint64_t budget_frame(uint64_t granted);
/* Add a frame that waits to be written; -1 if there is no room for it. */
int budget_wait(struct budget *b, uint64_t bytes);
void budget_written(struct budget *b); /* nothing waits any more */

/* Bytes that a frame needs in this program, from the pipe to its PNG of side `size` (0: not resized). */
uint64_t frame_bytes(uint64_t width, uint64_t height, int64_t size);

/* The options of decoding. */
struct work_options {
	int64_t size;         /* 0: as they are */
	const char *resize;   /* a name of resize_filter_names, or "adm" */
	int64_t frames;       /* of one video; 0: all */
	int64_t graph_frames; /* of one instance */
	double fps, timeout;
	uint64_t memory;
	int64_t max_pixels;
	int classes; /* --classes: a .cls is replaced */
	int bare;    /* decoders without a filter of system calls */
	int alone;   /* jobs run one after another, and each is written before the next */
	struct budget *budget;
	int (*stop)(void);
};

/* What a picture will take in memory until it is of the wanted size, by its header, for budget_take; 0 where the decoder will refuse it.
 * ERR_DATA where that is more than there is. */
int still_budget(struct budget *b, const void *data, size_t len, const char *name, const struct work_options *o, uint64_t *bytes, struct err *e);

/* A sample to be written: its members in bytewise order of their extensions, and a hash of its pixels. */
struct item_member {
	char ext[64];
	uint8_t *data;
	size_t len;
};

struct item {
	char *key;
	struct item_member *m;
	int n;
	uint64_t hash;
};

void item_release(struct item *it);
/* Copies; keeps the order. */
void item_add(struct item *it, const char *ext, const void *data, size_t len);

/* The result of a job: samples in order, and an error if it ended early. */
struct result {
	struct item *v;
	int n, cap;
	int unkept; /* 1: its waiting frames did not fit into the budget; the job must be run again alone */
	struct err e;
};

void result_release(struct result *r);

/* All samples of a job. A picture brings the .cls, .json and .txt beside it. */
void job_work(struct result *r, const struct job *j, const struct work_options *o);

/* The samples of a video or graph one by one: 1 and *it; 0 at the end; -1 on error. */
int work_open(struct decoder *d, const struct job *j, const struct work_options *o, struct err *e);
int work_next(struct decoder *d, const struct job *j, const struct work_options *o, struct item *it, struct err *e);

/* Check the class and picture of a sample from another program's tar, `origin`, and resize its picture in place. */
int item_fit(struct item *it, const char *origin, const struct work_options *o, struct err *e);

/* A video or a graph, which makes many samples. */
int job_many(const struct job *j);
/* Makes keys of files in one folder differ in a sorted list, which sort() then sorts again. */
void keys_distinguish(struct job_list *l, void sort(struct job_list *l));
/* 1 for the name of a caption, a class or facts. */
int is_sidecar(const char *path);
/* Counts those of l->beside that belong to no picture as passed over. */
void sidecars_count(struct job_list *l);

/* Hashes of the pixels written so far, with the keys of their samples. Zero-initialised is empty. */
struct seen {
	struct seen_slot {
		uint64_t hash;
		size_t key; /* where it begins in keys */
	} * slot;
	size_t n, cap;
	struct str keys;
};

/* The key of the earlier one, borrowed until the next call; NULL when it is new. */
const char *seen_add(struct seen *s, uint64_t hash, const char *key);
void seen_release(struct seen *s);

/* What --classes numbers: folders, graphs. Zero-initialised is empty. */
struct class_name {
	char *name, *place; /* which decides about the order */
};

struct class_list {
	struct class_name *v;
	size_t n;
	struct nametable numbers;
};

/* With number the classes of all sources. *names: a list of the names of classes, for the stamp, or NULL; caller json_decref()s. */
int classes_find(struct class_list *c, const struct job_list *l, int number, json_t **names, struct err *e);
void class_list_release(struct class_list *c);
/* Set the .cls of a sample from a job or, if NULL, a tar; replaces an existing one. */
int class_set(const struct class_list *c, const struct job *j, struct item *it, struct err *e);

/* "NAME-SEED" or "NAME" of instance i of a graph job. */
void job_instance(struct str *out, const struct job *j, int i);

/* A graph with its placeholders filled in for one seed (see ddm-ingest(1)). 1 in *any when it has some. ERR_USAGE. */
int graph_expand(struct str *out, const char *graph, uint64_t seed, int *any, struct err *e);

#endif
