/* Samples the network during training, on the forward part of the training tape. */
#include <inttypes.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/gallery.h"
#include "diffusion/ondevice.h"
#include "diffusion/solver.h"
#include "file/commit.h"
#include "file/contactsheet.h"
#include "file/still.h"
#include "train/run.h"

enum { SIDE = 8, STEPS = 25 };

struct field {
	struct trainer *r;
	int64_t n;
};

static int velocity(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e)
{
	struct field *f = arg;
	struct trainer *r = f->r;
	struct tape *tape = r->main.loss.tape;
	int64_t d = r->main.objective.d;
	struct convert c = convert_at(r->main.objective.path, r->main.objective.def.prediction, CONVERT_MATCH, t);

	(void)step;
	(void)stage;
	for (int64_t i = 0; i < f->n; i++) {
		r->main.noised.t[i] = (float)c.time;
		r->main.noised.label[i] = r->net.classes ? (int32_t)(i % r->net.classes) : 0;
	}
	noised_put(&r->main.noised);
	tape_seed(tape, &(struct run_keys){.no_dropout = 1});
	ondevice_advance(r->device, tape_data(tape, r->main.loss.x), NULL, c.scale, x, NULL, f->n * d);
	tape_run(tape, f->n, r->main.loss.network, r->main.loss.forward_end);
	ondevice_convert(r->device, &c, v, x, tape_data(tape, r->main.loss.out), NULL, f->n, d, d);
	return r->device->error(r->device, e);
}

/* Write n samples x to OUT/train/samples-STEP.png, `columns` in a row; of clips a row holds the frames of one. */
static int write_sheet(struct trainer *r, float *x, int64_t n, int64_t columns, struct err *e)
{
	const struct net_config *c = &r->net;
	int64_t each = c->channels * c->size * c->size;
	const struct contactsheet layout = {.columns = columns, .side = c->size, .channels = (int)c->channels};
	struct picture sheet = {0};
	char *path = str_new("%s/samples-%08" PRId64 ".png", r->train_dir, r->state.step);
	struct still_text text = {"ddm", r->stamp};
	uint8_t *png = NULL;
	size_t len = 0;
	int rc;

	n *= r->main.objective.d / each;
	rc = contactsheet_new(&sheet, &layout, (n + columns - 1) / columns, 0, e);

	for (int64_t i = 0; i < n && !rc; i++) {
		struct picture p;

		rc = gallery_picture(&p, x + i * each, c->channels, c->size, c->size, path, e);
		if (!rc) {
			contactsheet_put(&sheet, &layout, i, 0, &p);
			picture_release(&p);
		}
	}
	if (!rc)
		rc = still_encode_png(&sheet, &text, 1, &png, &len, e);
	if (!rc)
		rc = commit_bytes(path, png, len, e);
	mem_free(png);
	picture_release(&sheet);
	mem_free(path);
	return rc;
}

static int64_t pictures(const struct trainer *r)
{
	int64_t most = r->net.frames ? SIDE : SIDE * SIDE;

	return r->part < most ? r->part : most;
}

/* Set the texts of the sheet: those of the first held-out samples, or of training samples if none are held out. */
static int put_texts(struct trainer *r, struct err *e)
{
	struct dataset *set = r->main.held ? r->main.held : r->main.data;
	int64_t n = pictures(r), m = r->net.text_tokens * r->net.text_width, w = r->net.pooled_width;
	uint16_t *half;
	float *text, *pooled;
	int32_t *rows;
	int rc = 0;

	if (!net_reads(&r->net, NET_IN_TEXT))
		return 0;
	if (!(text = mem_try((size_t)n, (size_t)m * sizeof *text, "texts of samples", e)))
		return -1;
	half = mem_alloc((size_t)(m + w) * sizeof *half);
	pooled = w ? mem_alloc((size_t)(n * w) * sizeof *pooled) : NULL;
	rows = mem_alloc((size_t)n * sizeof *rows);
	for (int64_t i = 0; i < n && !rc; i++) {
		struct dataset_item it = {.text = half, .pooled = half + m};

		rc = dataset_item(set, i % dataset_info(set)->count, &it, e);
		rows[i] = it.rows;
		if (!rc)
			text_expand(text + i * m, half, m);
		if (!rc && pooled)
			text_expand(pooled + i * w, half + m, w);
	}
	if (!rc)
		noised_put_text(&r->main.noised, n, &(struct clean){.text = text, .rows = rows, .pooled = pooled});
	mem_free(text);
	mem_free(pooled);
	mem_free(half);
	mem_free(rows);
	return rc;
}

/* Set the first frames of the sheet: those of the samples whose texts it has. */
static int put_firsts(struct trainer *r, struct err *e)
{
	struct dataset *set = r->main.held ? r->main.held : r->main.data;
	int64_t n = pictures(r), d = r->main.objective.d;
	int32_t label, cluster;
	float *x0;
	int rc = 0;

	if (!net_reads(&r->net, NET_IN_FIRST))
		return 0;
	if (!(x0 = mem_try((size_t)n, (size_t)d * sizeof *x0, "first frames of samples", e)))
		return -1;
	for (int64_t i = 0; i < n && !rc; i++)
		rc = dataset_read(set, i % dataset_info(set)->count, x0 + i * d, &label, &cluster, e);
	if (!rc)
		noised_put_first(&r->main.noised, n, x0);
	mem_free(x0);
	return rc;
}

static int draw_samples(struct trainer *r, struct err *e)
{
	struct device *dev = r->device;
	int64_t n = pictures(r), d = r->main.objective.d;
	size_t bytes = (size_t)n * (size_t)d * sizeof(float);
	struct solver s = {.kind = SOLVER_EULER, .steps = STEPS, .from = 1, .to = 0};
	struct field f = {r, n};
	float *host = mem_try(bytes, 1, "sample grid", e), *x = NULL, *work = NULL;
	int rc = -1;

	if (host && (x = dev->alloc(dev, bytes, "sample grid", e)) &&
	    (work = dev->alloc(dev, (size_t)solver_work(&s, n * d) * sizeof *work, "sample grid", e))) {
		for (int64_t i = 0; i < n; i++)
			rng_normal(host + i * d, (size_t)d, r->o->seed, RNG_SAMPLE, 0, (uint64_t)i);
		device_put(dev, x, host, bytes);
		rc = solver_run(&s, dev, x, n * d, work, velocity, NULL, &f, e);
	}
	if (!rc) {
		device_get(dev, host, x, bytes);
		rc = dev->error(dev, e) || write_sheet(r, host, n, r->net.frames ? r->net.frames : n < SIDE ? n : SIDE, e) ? -1 : 0;
	}
	dev->release(dev, x);
	dev->release(dev, work);
	mem_free(host);
	return rc;
}

/* The sheet of a router: each row shows one sample at growing noise, with inverted values where the router picks the wrong cluster,
 * or, of frozen experts, not the one with the least error. */
static int draw_routing(struct trainer *r, struct err *e)
{
	struct dataset *set = r->main.held ? r->main.held : r->main.data;
	int64_t rows = dataset_info(set)->count < SIDE ? dataset_info(set)->count : SIDE, d = r->main.objective.d, k = r->net.clusters;
	float *x = mem_try((size_t)(rows * SIDE), (size_t)d * sizeof *x, "routing grid", e), *x0 = mem_alloc((size_t)d * sizeof *x0),
	      *out = mem_alloc((size_t)k * sizeof *out);
	struct tape *tape = r->main.loss.tape;
	int rc = x ? 0 : -1;

	for (int64_t i = 0; i < rows * SIDE && !rc; i++) {
		int32_t label, cluster;
		struct clean clean = {.x0 = x0, .label = &label, .cluster = &cluster};
		int64_t best = 0;

		rc = dataset_read(set, i / SIDE * dataset_info(set)->count / rows, x0, &label, &cluster, e);
		if (rc)
			break;
		objective_validate(&r->main.objective, &r->main.noised, &r->main.loss, 1, &clean, i % SIDE, SIDE);
		rc = trainer_forward(r, &r->main, 1, &clean, e);
		if (rc)
			break;
		device_get(r->device, out, tape_data(tape, r->main.loss.out), (size_t)k * sizeof *out);
		device_get(r->device, x + i * d, tape_data(tape, r->main.loss.x), (size_t)d * sizeof *x);
		rc = r->device->error(r->device, e);
		for (int64_t j = 1; j < k; j++)
			if (out[j] > out[best])
				best = j;
		for (int64_t j = 0; j < d; j++)
			x[i * d + j] = best == r->main.noised.label[0] ? x[i * d + j] : -x[i * d + j];
	}
	if (!rc)
		rc = write_sheet(r, x, rows * SIDE, SIDE * (r->net.frames ? r->net.frames : 1), e);
	mem_free(x);
	mem_free(x0);
	mem_free(out);
	return rc;
}

int sample_grid(struct trainer *r, float *average, struct err *e)
{
	int rc;

	if (r->net.channels != 1 && r->net.channels != 3)
		return err_set(e, ERR_USAGE, "--sample-every shows pictures of 1 or 3 channels, and these samples are latents of %lld channels",
		               (long long)r->net.channels);
	trainer_bind(r, average);
	rc = net_is_classifier(&r->net) ? draw_routing(r, e) : put_texts(r, e) || put_firsts(r, e) ? -1 : draw_samples(r, e);
	trainer_bind(r, r->state.values);
	return rc;
}
