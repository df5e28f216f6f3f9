/* Opens a model folder: checks that its experts and its router belong together and lays out their weights. */
#include "diffusion/ensemble.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "diffusion/classsizes.h"
#include "diffusion/ensembleimpl.h"
#include "diffusion/layout.h"
#include "diffusion/membership.h"
#include "diffusion/ondevice.h"
#include "file/fileio.h"
#include "net/pager.h"

static void member_run(struct member *m, int64_t n, const float *x, const float *t, const struct condition *c, float *out)
{
	if (!m->exact) {
		struct model_input in = {.x = x, .t = t, .micro = m->micro};

		if (c) {
			in.label = c->label;
			in.text = c->text;
			in.mask = c->mask;
			in.pooled = c->pooled;
			in.first = c->first;
		}
		model_submit(m->model, n, &in, out);
		return;
	}
	device_get(m->device, m->host_x, x, (size_t)(n * m->d) * sizeof *x);
	law_model_run(m->exact, n, m->host_x, t, m->host_out);
	device_put(m->device, out, m->host_out, (size_t)(n * m->elements) * sizeof *out);
}

static double member_flops(const struct member *m)
{
	return m->exact ? law_model_flops(m->exact) : model_flops(m->model);
}

/* The end of the run of rows from `from` on that have the same time. */
static int64_t same_time(const float *t, int64_t from, int64_t n)
{
	int64_t i = from + 1;

	while (i < n && t[i] == t[from])
		i++;
	return i;
}

/* The network's time: on the schedule's path t itself, on another path the time of equal log-SNR, clamped to the times of its training. */
static double time_on_path(const struct member *m, double t)
{
	const struct path *shared = &m->all->schedule->path;

	return m->elsewhere ? fmin(fmax(path_time(m->path, path_at(shared, t).logsnr), m->path->lo), m->path->hi) : t;
}

/* v (n, all->out) = the network's prediction, converted to the ensemble's kind. x (n, d) is on the schedule, where alpha^2 + sigma^2 = 1. */
static int run_own(struct member *m, int64_t n, const float *x, const float *t, const struct condition *given, float *v, struct err *e)
{
	const struct ensemble *s = m->all;
	int64_t d = m->d, extra = s->out - d;
	const float *in = x, *time = t;

	if (!m->elsewhere && m->path->preserving && m->kind == s->kind && m->elements == s->out) {
		member_run(m, n, x, t, given, v);
		return m->device->error(m->device, e);
	}
	if (m->elsewhere || !m->path->preserving) {
		for (int64_t i = 0, end; i < n; i = end) {
			double at = time_on_path(m, t[i]);
			struct path_point p = path_at(m->path, at);

			end = same_time(t, i, n);
			for (int64_t k = i; k < end; k++)
				m->time[k] = m->elsewhere ? (float)at : t[k];
			ondevice_advance(m->device, m->x + i * d, NULL, hypot(p.alpha, p.sigma), x + i * d, NULL, (end - i) * d);
		}
		in = m->x;
		time = m->time;
	}
	member_run(m, n, in, time, given, m->out);
	for (int64_t i = 0, end; i < n; i = end) {
		struct path_point p = path_at(m->path, time_on_path(m, t[i]));
		struct term sum[2] = {{0, in + i * d, d}, {0, m->out + i * m->elements, m->elements}};

		end = same_time(t, i, n);
		prediction_relate(&p, m->kind, s->kind, &sum[0].f, &sum[1].f);
		ondevice_combine(m->device, v + i * s->out, s->out, sum, 2, 0, end - i, d);
		if (extra)
			ondevice_combine(m->device, v + i * s->out + d, s->out, &(struct term){1, m->out + i * m->elements + d, m->elements}, 1, 0,
			                 end - i, extra);
	}
	return m->device->error(m->device, e);
}

void ensemble_to_own_path(struct member *m, int64_t n, const float *x, const float *t)
{
	int64_t d = m->d;

	for (int64_t i = 0, end; i < n; i = end) {
		struct convert c = convert_at(m->path, m->kind, m->mode, t[i]);

		end = same_time(t, i, n);
		for (int64_t k = i; k < end; k++)
			m->time[k] = (float)c.time;
		ondevice_advance(m->device, m->x + i * d, NULL, c.scale, x + i * d, NULL, (end - i) * d);
	}
}

static int run_expert(void *arg, int64_t n, const float *x, const float *t, const struct condition *given, float *v, struct err *e)
{
	struct member *m = arg;
	int64_t d = m->d;

	assert(n <= m->capacity);
	if (ensemble_load_member(m, e))
		return -1;
	if (m->all->schedule)
		return run_own(m, n, x, t, given, v, e);
	if (m->plain) {
		member_run(m, n, x, t, given, v);
		return m->device->error(m->device, e);
	}
	ensemble_to_own_path(m, n, x, t);
	member_run(m, n, m->x, m->time, given, m->out);
	for (int64_t i = 0, end; i < n; i = end) {
		struct convert c = convert_at(m->path, m->kind, m->mode, t[i]);

		end = same_time(t, i, n);
		ondevice_convert(m->device, &c, v + i * d, x + i * d, m->out + i * m->elements, m->mean, end - i, d, m->elements);
	}
	return m->device->error(m->device, e);
}

int ensemble_run_plain(struct member *m, int64_t n, const float *x, const float *t, float *out, struct err *e)
{
	if (ensemble_load_member(m, e))
		return -1;
	if (m->path != &path_linear) {
		ensemble_to_own_path(m, n, x, t);
		x = m->x;
		t = m->time;
	}
	member_run(m, n, x, t, NULL, out);
	return m->device->error(m->device, e);
}

static int run_router(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e)
{
	return ensemble_run_plain(arg, n, x, t, logits, e);
}

void ensemble_add_file(struct ensemble *s, char *name, const char *hash)
{
	s->file = mem_resize(s->file, (size_t)s->files + 1, sizeof *s->file);
	s->file[s->files].name = name;
	snprintf(s->file[s->files++].hash, 65, "%s", hash);
}

static int load_member(struct member *m, const char *folder, const struct ensemble_options *o, enum compact_type bulk, char *hash, struct err *e)
{
	struct model_config c;
	int exact;

	if (model_config_load(folder, &c, e))
		return -1;
	exact = net_is_exact(&c.net);
	model_config_release(&c);
	if (exact && (m->exact = law_model_open(folder, o->device->pool, hash, e)))
		m->config = law_model_config(m->exact);
	else if (!exact && (m->model = o->gradient ? model_find_gradient(folder, o->capacity, o->frames, o->device, hash, e)
	                                           : model_find(folder, o->capacity, o->frames, bulk, o->device, hash, e)))
		m->config = model_config(m->model);
	if (!m->config)
		return -1;
	m->capacity = o->capacity;
	m->d = net_sample_elements(&m->config->net);
	m->elements = net_elements(&m->config->net);
	if (exact && (!(m->host_x = mem_try((size_t)o->capacity * (size_t)m->d, sizeof *m->host_x, "samples", e)) ||
	              !(m->host_out = mem_try((size_t)o->capacity * (size_t)m->elements, sizeof *m->host_out, "predictions", e))))
		return -1;
	return 0;
}

/* Add the hash of the scheduler file, which sets the path and the prediction of a network from diffusers. */
static int add_scheduler(struct ensemble *s, const char *folder, const char *sub, const char *slash, struct err *e)
{
	char *path = scheduler_find(folder), hash[65];
	int rc = path ? sha256_file(path, hash, NULL, e) : 0;

	if (path && !rc)
		ensemble_add_file(s, str_new("%s%sscheduler_config.json", sub, slash), hash);
	mem_free(path);
	return rc;
}

/* Open the network in the folder `sub` below `dir` ("": dir itself) as s->member[i]. */
static int open_member(struct ensemble *s, int i, const char *dir, const char *sub, const struct ensemble_options *o, struct err *e)
{
	struct member *m = &s->member[i];
	char *folder = *sub ? path_join(dir, sub) : mem_strdup(dir), *config = path_join(folder, "config.json"), hash[65];
	const char *slash = *sub ? "/" : "";
	int rc = -1, first = s->files;

	if (!path_exists(config)) {
		err_set(e, ERR_NOINPUT,
		        "%s: has weights but no config.json, which must name the network: its model_type, sizes, prediction and path "
		        "(ddm-formats)",
		        folder);
		goto out;
	}
	if (sha256_file(config, hash, NULL, e))
		goto out;
	ensemble_add_file(s, str_new("%s%sconfig.json", sub, slash), hash);
	m->device = o->device;
	m->all = s;
	if (load_member(m, folder, o, i < s->k ? o->bulk : COMPACT_NONE, hash, e))
		goto out;
	memcpy(m->weights_hash, hash, sizeof m->weights_hash);
	if (m->config->scheduled && add_scheduler(s, folder, sub, slash, e))
		goto out;
	ensemble_add_file(s, str_new("%s%s%s", sub, slash, m->model ? model_weights_file(m->model) : model_weights_name(net_role(&m->config->net))),
	                  hash);
	rc = ensemble_add_mean(s, m, folder, sub, slash, o, e) || ensemble_add_losses(s, i, folder, sub, first, &o->policy, e) ? -1 : 0;
out:
	mem_free(config);
	mem_free(folder);
	return rc;
}

static int agree(const char *where, const char *what, int64_t a, int64_t b, struct err *e)
{
	if (a == b)
		return 0;
	return err_set(e, ERR_DATA, "%s: %s is %lld here and %lld in the model's other networks", where, what, (long long)a, (long long)b);
}

/* The first network sets the shape of the pictures; the others must agree. */
static int check_shape(struct ensemble *s, const struct net_config *c, const char *where, struct err *e)
{
	if (!s->d) {
		s->channels = c->channels;
		s->size = c->size;
		s->frames = c->frames;
		s->d = net_sample_elements(c);
		return 0;
	}
	return agree(where, "channels", c->channels, s->channels, e) || agree(where, "size", c->size, s->size, e) ||
	               agree(where, "num_frames", c->frames, s->frames, e)
	           ? -1
	           : 0;
}

static int check_text(struct ensemble *s, const struct net_config *c, const char *where, int first, struct err *e)
{
	if (!first && (agree(where, "text_tokens", c->text_tokens, s->text_tokens, e) || agree(where, "text_width", c->text_width, s->text_width, e)))
		return -1;
	if (s->pooled_width && c->pooled_width && agree(where, "pooled_width", c->pooled_width, s->pooled_width, e))
		return -1;
	s->text_tokens = c->text_tokens;
	s->text_width = c->text_width;
	s->pooled_width = c->pooled_width ? c->pooled_width : s->pooled_width;
	s->masked |= net_reads(c, NET_IN_MASK);
	return 0;
}

/* Buffers for the converted input and the output before conversion. */
static int alloc_conversion(struct member *m, size_t n, size_t d, struct err *e)
{
	return (m->x = m->device->alloc(m->device, n * d * sizeof *m->x, "network input", e)) &&
	               (m->out = m->device->alloc(m->device, n * (size_t)m->elements * sizeof *m->out, "network output", e)) &&
	               (m->time = mem_try(n, sizeof *m->time, "network times", e))
	           ? 0
	           : -1;
}

static int prepare_expert(struct ensemble *s, int k, const char *where, const struct ensemble_options *o, int first, struct err *e)
{
	struct member *m = &s->member[k];
	const struct model_config *c = m->config;
	int kind = prediction_find(c->prediction);
	size_t n = (size_t)o->capacity;

	if (net_is_classifier(&c->net))
		return err_set(e, ERR_DATA, "%s: is a router, and an expert is expected", where);
	if (!(m->path = schedule_path(&m->schedule, c->path, &c->betas, c->sigma_data, e)))
		return err_prefix(e, "%s", where);
	if (kind < 0)
		return err_set(e, ERR_DATA, "%s: prediction \"%s\" is not known here", where, c->prediction);
	if (check_shape(s, &c->net, where, e) || check_text(s, &c->net, where, first, e) ||
	    (!first && agree(where, "classes", c->net.classes, s->classes, e)))
		return -1;
	if (!first && c->told_cluster != s->told_cluster)
		return err_set(e, ERR_DATA, "%s: its condition is the %s, but that of the experts before it is the %s", where,
		               c->told_cluster ? "cluster" : "class", c->told_cluster ? "class" : "cluster");
	if (c->net.out_channels < c->net.channels)
		return err_set(e, ERR_DATA, "%s: predicts %lld channels for samples of %lld", where, (long long)c->net.out_channels,
		               (long long)c->net.channels);
	s->lower |= c->lower;
	s->classes = (int)c->net.classes;
	s->told_cluster = c->told_cluster;
	s->null_label = (first || s->null_label) && c->net.classes > 0 && c->net.class_dropout > 0;
	m->kind = (enum prediction)kind;
	m->mode = o->mode;
	s->native[k] = (struct guidance_native){m->path, m->kind};
	m->plain = !o->own && m->kind == PREDICT_VELOCITY && m->path == &path_linear && c->net.out_channels == c->net.channels;
	if (!m->plain && alloc_conversion(m, n, (size_t)s->d, e))
		return -1;
	if (net_reads(&c->net, NET_IN_MICRO)) { /* the picture is taken as uncropped, as in PixArt's sampling */
		if (!(m->micro = mem_try(n * NET_MICRO, sizeof *m->micro, "network input", e)))
			return -1;
		net_micro(&c->net, o->capacity, m->micro);
	}
	s->expert[k] = (struct expert){.velocity = run_expert,
	                               .arg = m,
	                               .capacity = o->capacity,
	                               .classes = s->classes,
	                               .flops = member_flops(m),
	                               .text_tokens = s->text_tokens,
	                               .text_width = s->text_width,
	                               .pooled_width = c->net.pooled_width,
	                               .first_frame = c->net.first_frame ? net_first_elements(&c->net) : 0,
	                               .without_first = c->net.first_frame && c->net.frame_dropout > 0};
	s->first_frame = c->net.first_frame ? net_first_elements(&c->net) : s->first_frame;
	s->needs_first |= c->net.first_frame && !(c->net.frame_dropout > 0);
	return 0;
}

int ensemble_without_first(const struct ensemble *s, const char *model, struct err *e)
{
	return s->needs_first ? err_set(e, ERR_USAGE, "%s: was trained with --first-frame-drop 0, so it always needs a first frame", model) : 0;
}

int ensemble_same_schedule(const struct schedule *a, const struct schedule *b)
{
	return a->steps == b->steps && a->first == b->first && a->unit == b->unit && !memcmp(a->abar, b->abar, (size_t)a->steps * sizeof *a->abar);
}

/* The kind of prediction to mix in: the expert's own if discrete-time solvers accept it, else epsilon. */
static enum prediction own_kind(const struct member *m)
{
	int known = m->kind == PREDICT_X0 || m->kind == PREDICT_EPSILON || (m->kind == PREDICT_ANGULAR && m->path->preserving);

	return known ? m->kind : PREDICT_EPSILON;
}

/* Choose one schedule for all experts, that of the first, and one kind of prediction. If paths differ the kind is x0, which stays meaningful when
 * the noise is outside an expert's range, and learned variances are dropped, because they belong to the steps of one path. */
static int share_path(struct ensemble *s, struct err *e)
{
	int mixed = 0;

	for (int k = 0; k < s->k; k++) {
		struct member *m = &s->member[k];
		const struct schedule *steps;

		if (!m->config)
			continue;
		if (!schedule_of(m->path) && schedule_init(&m->steps, m->path->name, NULL, e))
			return -1;
		steps = schedule_of(m->path) ? &m->schedule : &m->steps;
		if (!s->schedule) {
			s->kind = own_kind(m);
			s->out = m->elements >= 2 * s->d ? 2 * s->d : s->d;
			s->schedule = steps;
		}
		m->elsewhere = !ensemble_same_schedule(s->schedule, steps);
		mixed |= m->elsewhere;
		s->kind = own_kind(m) == s->kind ? s->kind : PREDICT_EPSILON;
		s->out = m->elements >= 2 * s->d ? s->out : s->d;
	}
	if (mixed) {
		s->kind = PREDICT_X0;
		s->out = s->d;
	}
	return 0;
}

static void take_shares(struct ensemble *s, const struct model_config *c)
{
	if (!c->cluster_sizes && !c->cluster_shares)
		return;
	mem_free(s->shares);
	s->shares = mem_zalloc((size_t)s->clusters, sizeof *s->shares);
	for (int k = 0; k < s->clusters; k++)
		s->shares[k] = c->cluster_sizes ? (double)c->cluster_sizes[k] : c->cluster_shares[k];
	s->sized = c->cluster_sizes != NULL;
}

static int count_clusters(struct ensemble *s, const struct layout *l, const char *dir, struct err *e)
{
	s->k = l->highest + 1;
	if (!l->has_router)
		return 0;
	if (!net_is_classifier(&l->router.net))
		return err_set(e, ERR_DATA, "%s/router: is not a router", dir);
	if (ensemble_numbers_fit(l, dir, e))
		return -1;
	s->k = l->router.net.clusters > s->k ? (int)l->router.net.clusters : s->k;
	return 0;
}

static int open_experts(struct ensemble *s, struct layout *l, const char *dir, const struct ensemble_options *o, struct err *e)
{
	int first = 1;

	for (int k = 0; k < s->k; k++) {
		char name[32], *sub, *where;
		int rc;

		if (!l->present[k] || !policy_may_select(&o->policy, k))
			continue;
		snprintf(name, sizeof name, "expert_%d", k);
		if (!(sub = layout_settle_sub(dir, l->lone ? l->lone : name, NET_EXPERT, o->step, &s->step[k], e)))
			return -1;
		where = *sub ? path_join(dir, sub) : mem_strdup(dir);
		rc = open_member(s, k, dir, sub, o, e) || prepare_expert(s, k, where, o, first, e) ||
		             membership_add(&l->together, dir, sub, l->lone ? -1 : k, s->member[k].config, e)
		         ? -1
		         : 0;
		mem_free(where);
		mem_free(sub);
		if (rc)
			return -1;
		first = 0;
	}
	if (first)
		return err_set(e, ERR_USAGE, "%s: has no expert_%d", dir, (int)o->policy.entry[0].number);
	return l->has_router ? membership_add(&l->together, dir, "router", -1, &l->router, e) : 0;
}

int ensemble_open_classifier(struct ensemble *s, struct member *m, const char *dir, const char *sub, const struct ensemble_options *o, struct err *e)
{
	if (open_member(s, (int)(m - s->member), dir, sub, o, e) || check_shape(s, &m->config->net, sub, e))
		return -1;
	m->kind = PREDICT_X0;
	if (!(m->path = schedule_path(&m->schedule, m->config->path, &m->config->betas, m->config->sigma_data, e)))
		return err_prefix(e, "%s/%s", dir, sub);
	return m->path != &path_linear ? alloc_conversion(m, (size_t)o->capacity, (size_t)s->d, e) : 0;
}

static int open_router(struct ensemble *s, const struct layout *l, const char *dir, const struct ensemble_options *o, struct err *e)
{
	struct member *m = &s->member[s->k];

	s->step[s->k] = l->router_step;
	if (ensemble_open_classifier(s, m, dir, l->router_sub, o, e))
		return -1;
	s->router = (struct router){run_router, m, o->capacity, member_flops(m)};
	return 0;
}

/* Cluster sizes from the router's config, else from an expert of the partition that extends those of others. */
static int find_shares(struct ensemble *s, const struct layout *l, const char *dir, struct err *e)
{
	char *config = str_new("%s/%s/config.json", dir, l->has_router ? l->router_sub : "router");
	int rc = 0;

	if (l->has_router) {
		take_shares(s, &l->router);
		rc = s->classes ? class_sizes_load(&s->class_shares, config, s->classes, s->clusters, e) : 0;
	}
	mem_free(config);
	for (int k = 0; !rc && !s->shares && k < s->k; k++) {
		const struct model_config *c = s->member[k].config;

		if (!c || (!c->cluster_sizes && !c->cluster_shares) || c->clusters < l->together.clusters)
			continue;
		if (c->clusters < s->clusters)
			return err_set(e, ERR_DATA, "%s/expert_%d: was trained on a partition into %lld clusters, but the model has %d experts", dir,
			               k, (long long)c->clusters, s->clusters);
		take_shares(s, c);
	}
	return rc;
}

struct mixture ensemble_mixture(const struct ensemble *s, const struct policy *p, uint64_t seed, struct device *device)
{
	return (struct mixture){.k = s->k,
	                        .d = s->d,
	                        .expert = s->expert,
	                        .owners = s->owners,
	                        .clusters = s->clusters,
	                        .router = s->router.logits ? &s->router : NULL,
	                        .uncertainty = s->uncertainty.logits ? &s->uncertainty : NULL,
	                        .policy = *p,
	                        .cfg = 1,
	                        .native = s->native,
	                        .seed = seed,
	                        .device = device,
	                        .shares = s->shares,
	                        .class_shares = s->class_shares,
	                        .confidence = s->confidence.times ? &s->confidence : NULL,
	                        .classes = s->classes};
}

static void hash_files(struct ensemble *s)
{
	struct sha256 h;

	sha256_init(&h);
	for (int i = 0; i < s->files; i++) {
		sha256_add(&h, s->file[i].name, strlen(s->file[i].name) + 1);
		sha256_add(&h, s->file[i].hash, 65);
	}
	sha256_end(&h, s->hash);
}

int ensemble_open(struct ensemble *s, const char *dir, const struct ensemble_options *o, struct err *e)
{
	struct layout l = {0};
	int rc = -1;

	memset(s, 0, sizeof *s);
	if (layout_survey(&l, dir, e) || count_clusters(s, &l, dir, e))
		goto out;
	s->members = s->k + 1 + (policy_uses(&o->policy, WEIGHT_UNCERTAINTY) ? s->k : 0);
	s->member = mem_zalloc((size_t)s->members, sizeof *s->member);
	s->expert = mem_zalloc((size_t)s->k, sizeof *s->expert);
	s->native = mem_zalloc((size_t)s->k, sizeof *s->native);
	s->step = mem_alloc((size_t)s->members * sizeof *s->step);
	memset(s->step, -1, (size_t)s->members * sizeof *s->step); /* -1 each */
	if (open_experts(s, &l, dir, o, e) || ensemble_take_times(s, &l, o, dir, e) || (o->own && share_path(s, e)) ||
	    (l.has_router && policy_uses(&o->policy, WEIGHT_ROUTER) && open_router(s, &l, dir, o, e)) || ensemble_open_uncertainties(s, dir, o, e) ||
	    find_shares(s, &l, dir, e) || ensemble_check_resident(s, o, e))
		goto out;
	s->class_names = json_incref(l.together.class_names);
	memcpy(s->partition, l.together.partition, sizeof s->partition);
	s->extends = json_incref(l.together.extends);
	s->resident = o->resident;
	s->bulk = o->bulk;
	hash_files(s);
	rc = 0;
out:
	layout_release(&l);
	return rc;
}

const char *ensemble_weights_hash(const struct ensemble *s, int k)
{
	return s->member[k].weights_hash;
}

int64_t ensemble_member_bytes(const struct ensemble *s, int i)
{
	return s->member[i].model ? model_bytes(s->member[i].model) : 0;
}

void ensemble_release(struct ensemble *s)
{
	for (int i = 0; i < s->members; i++) {
		model_free(s->member[i].model);
		law_model_free(s->member[i].exact);
		schedule_release(&s->member[i].schedule);
		schedule_release(&s->member[i].steps);
		if (s->member[i].device) {
			s->member[i].device->release(s->member[i].device, s->member[i].x);
			s->member[i].device->release(s->member[i].device, s->member[i].out);
			s->member[i].device->release(s->member[i].device, s->member[i].mean);
			s->member[i].device->release(s->member[i].device, s->member[i].one);
		}
		mem_free(s->member[i].time);
		mem_free(s->member[i].micro);
		mem_free(s->member[i].host_x);
		mem_free(s->member[i].host_out);
	}
	pager_free(s->pager);
	for (int i = 0; i < s->files; i++)
		mem_free(s->file[i].name);
	mem_free(s->file);
	mem_free(s->member);
	mem_free(s->expert);
	mem_free(s->native);
	mem_free(s->step);
	mem_free(s->owner);
	mem_free(s->shares);
	mem_free(s->class_shares);
	confidence_release(&s->confidence);
	json_decref(s->extends);
	json_decref(s->class_names);
	memset(s, 0, sizeof *s);
}
