/* Gradients of the experts' velocities and of the router's logits with respect to their input. */
#include "diffusion/ensemblepull.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "diffusion/ensembleimpl.h"

struct puller {
	struct ensemble *s;
	struct device *device;
	int64_t capacity, most;     /* most: elements of the largest output */
	float *x, *dy, *out, *dx;   /* on the device: (capacity, d), (capacity, most) twice, (capacity, d) */
	float *in, *host_dy, *host; /* (capacity, d), (capacity, most) twice */
	int32_t *label;             /* (capacity) */
	float *v[2];                /* (capacity, d) velocities beside x, for exact models */
};

static int allocate(struct puller *p, struct err *e)
{
	size_t n = (size_t)p->capacity, d = n * (size_t)p->s->d, most = n * (size_t)p->most;
	struct device *dev = p->device;

	return (p->x = dev->alloc(dev, d * sizeof(float), "states", e)) && (p->dy = dev->alloc(dev, most * sizeof(float), "cotangents", e)) &&
	               (p->out = dev->alloc(dev, most * sizeof(float), "predictions", e)) &&
	               (p->dx = dev->alloc(dev, d * sizeof(float), "gradients", e)) && (p->in = mem_try(d, sizeof(float), "states", e)) &&
	               (p->host_dy = mem_try(most, sizeof(float), "cotangents", e)) && (p->host = mem_try(most, sizeof(float), "predictions", e)) &&
	               (p->label = mem_try(n, sizeof *p->label, "labels", e)) && (p->v[0] = mem_try(d, sizeof(float), "velocities", e)) &&
	               (p->v[1] = mem_try(d, sizeof(float), "velocities", e))
	           ? 0
	           : -1;
}

struct puller *puller_new(struct ensemble *s, int64_t capacity, struct err *e)
{
	struct puller *p = mem_zalloc(1, sizeof *p);

	assert(!s->schedule);
	p->s = s;
	p->capacity = capacity;
	p->most = s->d;
	for (int i = 0; i < s->members; i++) {
		const struct member *m = &s->member[i];

		if (m->config)
			p->device = m->device;
		p->most = m->elements > p->most ? m->elements : p->most;
	}
	if (!allocate(p, e))
		return p;
	puller_free(p);
	return NULL;
}

void puller_free(struct puller *p)
{
	if (!p)
		return;
	p->device->release(p->device, p->x);
	p->device->release(p->device, p->dy);
	p->device->release(p->device, p->out);
	p->device->release(p->device, p->dx);
	mem_free(p->in);
	mem_free(p->host_dy);
	mem_free(p->host);
	mem_free(p->label);
	mem_free(p->v[0]);
	mem_free(p->v[1]);
	mem_free(p);
}

static struct condition null_label(struct puller *p, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		p->label[i] = p->s->classes;
	return (struct condition){.label = p->s->classes ? p->label : NULL};
}

static int velocity(struct puller *p, int k, int64_t n, const float *x, const float *t, float *v, struct err *e)
{
	const struct expert *expert = &p->s->expert[k];
	struct condition c = null_label(p, n);
	size_t bytes = (size_t)(n * p->s->d) * sizeof *x;

	device_put(p->device, p->x, x, bytes);
	if (expert->velocity(expert->arg, n, p->x, t, &c, p->dx, e))
		return -1;
	device_get(p->device, v, p->dx, bytes);
	return p->device->error(p->device, e);
}

/* J of an exact expert is symmetric: v = (x - D) / t, where dD/dx is a covariance up to a factor. So J' r is J r, a central difference. */
static int pull_exact(struct puller *p, int k, int64_t n, const float *x, const float *t, const float *r, float *v, float *g, struct err *e)
{
	int64_t d = p->s->d;
	double h[n];

	for (int64_t i = 0; i < n; i++) {
		double xx = 0, rr = 0;

		for (int64_t j = i * d; j < (i + 1) * d; j++) {
			xx += (double)x[j] * x[j];
			rr += (double)r[j] * r[j];
		}
		h[i] = rr > 0 ? 1e-3 * sqrt(xx / rr) : 0;
	}
	for (int side = 0; side < 2; side++) {
		for (int64_t j = 0; j < n * d; j++)
			p->in[j] = (float)(x[j] + (side ? -h[j / d] : h[j / d]) * r[j]);
		if (velocity(p, k, n, p->in, t, p->v[side], e))
			return -1;
	}
	for (int64_t j = 0; j < n * d; j++)
		g[j] = h[j / d] > 0 ? (float)(((double)p->v[0][j] - p->v[1][j]) / (2 * h[j / d])) : 0;
	return velocity(p, k, n, x, t, v, e);
}

/* The transpose of one row's conversion from the prediction `out` (elements) to a velocity: dy (elements) = the cotangent of the prediction, g (d) =
 * that of x outside the network. */
static void convert_back(const struct member *m, const struct convert *c, const float *x, const float *out, const float *r, float *dy, float *g)
{
	double keep = m->mean ? 1 - c->blend : 1;

	memset(dy, 0, (size_t)m->elements * sizeof *dy);
	for (int64_t j = 0; j < m->d; j++) {
		double x0 = c->a * x[j] + c->b * out[j], share = (c->clamp && fabs(x0) > CONVERT_X0_LIMIT ? 0 : keep) * r[j];

		if (c->identity) {
			dy[j] = r[j];
			g[j] = 0;
		} else if (c->eps_minus) {
			dy[j] = (float)(r[j] - c->b * share);
			g[j] = (float)(-c->a * share);
		} else {
			dy[j] = (float)(-c->b * share / c->t);
			g[j] = (float)((r[j] - c->a * share) / c->t);
		}
	}
}

/* The input of the network on its own path, in device memory: p->x, or the member's. */
static struct model_input own_input(struct puller *p, struct member *m, int64_t n, const float *x, const float *t)
{
	struct model_input in = {.x = p->x, .t = t, .micro = m->micro};

	device_put(p->device, p->x, x, (size_t)(n * m->d) * sizeof *x);
	if (!m->plain) {
		ensemble_to_own_path(m, n, p->x, t);
		in.x = m->x;
		in.t = m->time;
	}
	return in;
}

int puller_expert(void *puller, int k, int64_t n, const float *x, const float *t, const float *r, float *v, float *g, struct err *e)
{
	struct puller *p = puller;
	struct member *m = &p->s->member[k];
	int64_t d = m->d, w = m->elements;
	struct model_input in;

	assert(n <= p->capacity);
	if (m->exact)
		return pull_exact(p, k, n, x, t, r, v, g, e);
	if (m->plain ? ensemble_load_member(m, e) : velocity(p, k, n, x, t, v, e))
		return -1;
	if (m->plain) {
		memcpy(p->host_dy, r, (size_t)(n * d) * sizeof *r);
		memset(g, 0, (size_t)(n * d) * sizeof *g);
	} else {
		device_get(p->device, p->host, m->out, (size_t)(n * w) * sizeof *p->host);
		for (int64_t i = 0; i < n; i++) {
			struct convert c = convert_at(m->path, m->kind, m->mode, t[i]);

			convert_back(m, &c, x + i * d, p->host + i * w, r + i * d, p->host_dy + i * w, g + i * d);
		}
	}
	device_put(p->device, p->dy, p->host_dy, (size_t)(n * w) * sizeof *p->dy);
	in = own_input(p, m, n, x, t);
	in.label = null_label(p, n).label;
	model_pull(m->model, n, &in, p->dy, p->out, p->dx);
	device_get(p->device, p->in, p->dx, (size_t)(n * d) * sizeof *p->in);
	if (m->plain)
		device_get(p->device, v, p->out, (size_t)(n * d) * sizeof *v);
	for (int64_t i = 0; i < n; i++) {
		double scale = m->plain ? 1 : convert_at(m->path, m->kind, m->mode, t[i]).scale;

		for (int64_t j = i * d; j < (i + 1) * d; j++)
			g[j] = (float)(g[j] + scale * p->in[j]);
	}
	return p->device->error(p->device, e);
}

int puller_router(void *puller, int64_t n, const float *x, const float *t, const float *r, float *g, struct err *e)
{
	struct puller *p = puller;
	struct member *m = &p->s->member[p->s->k];
	size_t bytes = (size_t)(n * m->d) * sizeof *x;
	int own = m->path != &path_linear;
	struct model_input in = {.x = p->x, .t = t, .micro = m->micro};

	assert(n <= p->capacity);
	if (ensemble_load_member(m, e))
		return -1;
	device_put(p->device, p->x, x, bytes);
	if (own) {
		ensemble_to_own_path(m, n, p->x, t);
		in.x = m->x;
		in.t = m->time;
	}
	if (m->exact) {
		device_get(p->device, p->in, in.x, bytes);
		law_model_pull(m->exact, n, p->in, in.t, r, g);
	} else {
		device_put(p->device, p->dy, r, (size_t)(n * m->elements) * sizeof *r);
		model_pull(m->model, n, &in, p->dy, p->out, p->dx);
		device_get(p->device, g, p->dx, bytes);
	}
	for (int64_t i = 0; own && i < n; i++) {
		double scale = convert_at(m->path, m->kind, m->mode, t[i]).scale;

		for (int64_t j = i * m->d; j < (i + 1) * m->d; j++)
			g[j] = (float)(scale * g[j]);
	}
	return p->device->error(p->device, e);
}
