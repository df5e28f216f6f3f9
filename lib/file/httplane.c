/* HTTP by libcurl: requests, redirections, answers that are read as fast as they are needed, and time limits. */
#include "file/httplane.h"

#include "config.h"

#ifdef HAVE_CURL

#include <curl/curl.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/interrupt.h"
#include "core/mem.h"
#include "core/sharedlib.h"
#include "core/str.h"
#include "core/version.h"
#include "file/remoteinput.h"

enum { IDLE = 64, ROOM = 1 << 18, REDIRECTIONS = 5, SLICE_MS = 100, SLOW = 1000 /* bytes a second */, OLDEST = 0x075500 };

/* SHA-256 of no bytes, which are what a GET request sends. */
#define NO_PAYLOAD "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* The functions of libcurl, which is opened when the first URL is read, because it and the 26 libraries that only it
 * needs are two thirds of the time in which a program starts. */
static struct {
	__typeof__(curl_global_init) *global_init;
	__typeof__(curl_version_info) *version_info;
	__typeof__(curl_easy_init) *easy_init;
	__typeof__(curl_easy_cleanup) *easy_cleanup;
	__typeof__(curl_easy_reset) *easy_reset;
	__typeof__(curl_easy_setopt) *easy_setopt;
	__typeof__(curl_easy_getinfo) *easy_getinfo;
	__typeof__(curl_easy_pause) *easy_pause;
	__typeof__(curl_easy_strerror) *easy_strerror;
	__typeof__(curl_multi_init) *multi_init;
	__typeof__(curl_multi_cleanup) *multi_cleanup;
	__typeof__(curl_multi_add_handle) *multi_add_handle;
	__typeof__(curl_multi_remove_handle) *multi_remove_handle;
	__typeof__(curl_multi_perform) *multi_perform;
	__typeof__(curl_multi_info_read) *multi_info_read;
	__typeof__(curl_multi_poll) *multi_poll;
	__typeof__(curl_slist_append) *slist_append;
	__typeof__(curl_slist_free_all) *slist_free_all;
} curl;

struct httplane {
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	const void *owner; /* of the answer on the way; NULL: none */
	int64_t at;
	int active; /* a request is under way, or its answer not yet dropped */
	int done;   /* nothing more comes; result says how it ended */
	CURLcode result;
	struct http_answer answer;
	int broken; /* the header is malformed or too large */
	int paused;
	uint8_t *buf; /* [ROOM] received, not yet taken: [begin, end) */
	size_t begin, end;
	double waited; /* seconds of waiting and bytes received since the rate was last found high enough */
	size_t received;
	int retry;
	char *shown;
	char why[CURL_ERROR_SIZE];
};

static struct {
	pthread_mutex_t lock;
	struct httplane *idle[IDLE];
	int n;
} lanes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
	pthread_once_t once;
	int rc;
	struct err why;
} start = {.once = PTHREAD_ONCE_INIT};

static void start_library(void)
{
	static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};
	static const struct sharedlib_function table[] = {
	    {"curl_global_init", &curl.global_init},
	    {"curl_version_info", &curl.version_info},
	    {"curl_easy_init", &curl.easy_init},
	    {"curl_easy_cleanup", &curl.easy_cleanup},
	    {"curl_easy_reset", &curl.easy_reset},
	    {"curl_easy_setopt", &curl.easy_setopt},
	    {"curl_easy_getinfo", &curl.easy_getinfo},
	    {"curl_easy_pause", &curl.easy_pause},
	    {"curl_easy_strerror", &curl.easy_strerror},
	    {"curl_multi_init", &curl.multi_init},
	    {"curl_multi_cleanup", &curl.multi_cleanup},
	    {"curl_multi_add_handle", &curl.multi_add_handle},
	    {"curl_multi_remove_handle", &curl.multi_remove_handle},
	    {"curl_multi_perform", &curl.multi_perform},
	    {"curl_multi_info_read", &curl.multi_info_read},
	    {"curl_multi_poll", &curl.multi_poll},
	    {"curl_slist_append", &curl.slist_append},
	    {"curl_slist_free_all", &curl.slist_free_all},
	};
	const curl_version_info_data *v;

	start.rc = sharedlib_open(names, "libcurl, which reads URLs,", "Debian's package libcurl4", table, sizeof table / sizeof *table, &start.why);
	if (start.rc)
		return;
	v = curl.version_info(CURLVERSION_NOW);
	if (v->version_num < OLDEST)
		start.rc = err_set(&start.why, ERR_UNAVAILABLE, "libcurl %s is too old to read URLs: 7.85 is needed", v->version);
	else
		curl.global_init(CURL_GLOBAL_DEFAULT);
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
	struct httplane *l = arg;

	l->received += size * n;
	if (!httpanswer_line(&l->answer, line, size * n))
		return size * n;
	l->broken = 1;
	return 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct httplane *l = arg;

	n *= size;
	if (l->begin == l->end)
		l->begin = l->end = 0;
	if (l->end + n > ROOM && l->begin) {
		memmove(l->buf, l->buf + l->begin, l->end - l->begin);
		l->end -= l->begin;
		l->begin = 0;
	}
	if (l->end + n > ROOM) {
		l->paused = 1;
		return CURL_WRITEFUNC_PAUSE;
	}
	memcpy(l->buf + l->end, data, n);
	l->end += n;
	l->received += n;
	return n;
}

/* Programs that this process starts must not inherit the connection. */
static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	(void)arg;
	(void)purpose;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return CURL_SOCKOPT_OK;
}

static void lane_free(struct httplane *l)
{
	if (!l)
		return;
	httplane_stop(l);
	if (l->easy)
		curl.easy_cleanup(l->easy);
	if (l->multi)
		curl.multi_cleanup(l->multi);
	mem_free(l->buf);
	mem_free(l);
}

static struct httplane *lane_new(struct err *e)
{
	struct httplane *l;

	pthread_once(&start.once, start_library);
	if (start.rc) {
		if (e)
			*e = start.why;
		return NULL;
	}
	l = mem_zalloc(1, sizeof *l);
	l->buf = mem_alloc(ROOM);
	l->easy = curl.easy_init();
	l->multi = curl.multi_init();
	if (l->easy && l->multi)
		return l;
	err_set(e, ERR_NOMEM, "libcurl: no memory for a connection");
	lane_free(l);
	return NULL;
}

struct httplane *httplane_borrow(const void *owner, int64_t at, int *goes_on, struct err *e)
{
	struct httplane *l = NULL;
	int best = -1;

	pthread_mutex_lock(&lanes.lock);
	*goes_on = 0;
	for (int i = 0; i < lanes.n && !*goes_on; i++)
		if (lanes.idle[i]->owner == owner && lanes.idle[i]->at == at) {
			best = i;
			*goes_on = 1;
		} else if (best < 0 || (lanes.idle[best]->owner && !lanes.idle[i]->owner)) {
			best = i; /* rather one without an answer that would be dropped */
		}
	if (best >= 0 && (*goes_on || !lanes.idle[best]->owner || lanes.n == IDLE)) {
		l = lanes.idle[best];
		lanes.idle[best] = lanes.idle[--lanes.n];
	}
	pthread_mutex_unlock(&lanes.lock);
	if (l && !*goes_on)
		httplane_stop(l);
	return l ? l : lane_new(e);
}

void httplane_return(struct httplane *l)
{
	pthread_mutex_lock(&lanes.lock);
	if (lanes.n < IDLE) {
		lanes.idle[lanes.n++] = l;
		l = NULL;
	}
	pthread_mutex_unlock(&lanes.lock);
	lane_free(l);
}

void httplane_forget(const void *owner)
{
	pthread_mutex_lock(&lanes.lock);
	for (int i = 0; i < lanes.n; i++)
		if (lanes.idle[i]->owner == owner)
			httplane_stop(lanes.idle[i]);
	pthread_mutex_unlock(&lanes.lock);
}

int httplane_has_more(const struct httplane *l)
{
	return l->active && (!l->done || l->begin < l->end);
}

void httplane_mark(struct httplane *l, const void *owner, int64_t at)
{
	l->owner = owner;
	l->at = at;
}

void httplane_stop(struct httplane *l)
{
	if (l->active)
		curl.multi_remove_handle(l->multi, l->easy);
	curl.slist_free_all(l->headers);
	l->headers = NULL;
	mem_free(l->shown);
	l->shown = NULL;
	l->owner = NULL;
	l->active = l->done = l->broken = l->paused = 0;
	l->result = CURLE_OK;
	l->begin = l->end = 0;
}

int httplane_may_retry(const struct httplane *l)
{
	return l->retry;
}

double httplane_retry_after(const struct httplane *l)
{
	curl_off_t seconds = 0;

	curl.easy_getinfo(l->easy, CURLINFO_RETRY_AFTER, &seconds);
	return (double)seconds;
}

static int failed(struct httplane *l, int code, int retry, const char *why, struct err *e)
{
	l->retry = retry;
	err_set(e, code, "%s: %s", l->shown, why);
	return -1;
}

/* How a transfer ended that libcurl gave up. */
static int curl_failed(struct httplane *l, struct err *e)
{
	const char *why = *l->why ? l->why : curl.easy_strerror(l->result);

	if (l->broken)
		return failed(l, ERR_DATA, 0, "the header of the server's answer is malformed or too large", e);
	switch (l->result) {
	case CURLE_OUT_OF_MEMORY:
		return failed(l, ERR_NOMEM, 0, why, e);
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_LOGIN_DENIED: /* a user's name in the URL */
	case CURLE_BAD_FUNCTION_ARGUMENT:
		return failed(l, ERR_NOINPUT, 0, why, e);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_WEIRD_SERVER_REPLY:
		return failed(l, ERR_UNAVAILABLE, 0, why, e);
	default:
		return failed(l, ERR_UNAVAILABLE, 1, why, e);
	}
}

/* The rate is measured while we wait for the server, not while the caller does something else. */
static int wait_for_bytes(struct httplane *l, struct err *e)
{
	double before = clock_seconds(), limit = remote_settings()->timeout;

	if (interrupt_given())
		return failed(l, ERR_AGAIN, 0, "interrupted", e);
	curl.multi_poll(l->multi, NULL, 0, SLICE_MS, NULL);
	l->waited += clock_seconds() - before;
	if (l->waited < limit)
		return 0;
	if ((double)l->received < SLOW * limit) {
		char why[100];

		snprintf(why, sizeof why, "fewer than %d bytes a second came for %.4g seconds", SLOW, limit);
		return failed(l, ERR_UNAVAILABLE, 1, why, e);
	}
	l->waited = 0;
	l->received = 0;
	return 0;
}

/* Let libcurl work until there are bytes of the body, or the transfer is over. */
static int pump(struct httplane *l, struct err *e)
{
	for (;;) {
		int running, left;
		CURLMsg *m;

		if (l->paused) {
			l->paused = 0;
			curl.easy_pause(l->easy, CURLPAUSE_CONT);
		}
		curl.multi_perform(l->multi, &running);
		while ((m = curl.multi_info_read(l->multi, &left)))
			if (m->msg == CURLMSG_DONE) {
				l->done = 1;
				l->result = m->data.result;
			}
		if (l->begin < l->end || l->done)
			return 0;
		if (wait_for_bytes(l, e))
			return -1;
	}
}

static void set_options(struct httplane *l, const struct http_request *r, const char *url)
{
	const struct remote_options *o = remote_settings();
	CURL *c = l->easy;

	curl.easy_reset(c);
	curl.easy_setopt(c, CURLOPT_URL, url);
	curl.easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl.easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl.easy_setopt(c, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	curl.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(o->timeout * 1000));
	curl.easy_setopt(c, CURLOPT_USERAGENT, "ddm/" DDM_VERSION);
	curl.easy_setopt(c, CURLOPT_ERRORBUFFER, l->why);
	curl.easy_setopt(c, CURLOPT_SOCKOPTFUNCTION, on_socket);
	curl.easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl.easy_setopt(c, CURLOPT_HEADERDATA, l);
	curl.easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl.easy_setopt(c, CURLOPT_WRITEDATA, l);
	if (o->certificates)
		curl.easy_setopt(c, CURLOPT_CAINFO, o->certificates);
	if (!r->sign || !o->access_key)
		return;
	curl.easy_setopt(c, CURLOPT_USERNAME, o->access_key);
	curl.easy_setopt(c, CURLOPT_PASSWORD, o->secret_key);
}

static void add_header(struct httplane *l, const char *name, const char *value)
{
	char *line = str_new("%s: %s", name, value);
	struct curl_slist *more = curl.slist_append(l->headers, line);

	if (!more)
		mem_fail(0);
	l->headers = more;
	mem_free(line);
}

/* libcurl 7.88 signs all headers that it is given, but adds none of S3's own. */
static void sign(struct httplane *l)
{
	const struct remote_options *o = remote_settings();
	char *how = str_new("aws:amz:%s:s3", o->region);

	curl.easy_setopt(l->easy, CURLOPT_AWS_SIGV4, how);
	add_header(l, "x-amz-content-sha256", NO_PAYLOAD);
	if (o->session_token)
		add_header(l, "x-amz-security-token", o->session_token);
	mem_free(how);
}

static int send_request(struct httplane *l, const struct http_request *r, const char *url, struct err *e)
{
	char range[64];

	httplane_stop(l);
	l->shown = mem_strdup(r->shown);
	*l->why = 0;
	l->waited = 0;
	l->received = 0;
	httpanswer_reset(&l->answer);
	l->answer.bytes = 0;
	set_options(l, r, url);
	if (r->to >= 0)
		snprintf(range, sizeof range, "%lld-%lld", (long long)r->from, (long long)r->to);
	else
		snprintf(range, sizeof range, "%lld-", (long long)r->from);
	curl.easy_setopt(l->easy, CURLOPT_RANGE, range);
	if (r->if_range)
		add_header(l, "If-Range", r->if_range);
	if (r->sign && remote_settings()->access_key)
		sign(l);
	if (l->headers)
		curl.easy_setopt(l->easy, CURLOPT_HTTPHEADER, l->headers);
	if (curl.multi_add_handle(l->multi, l->easy))
		return failed(l, ERR_NOMEM, 0, "libcurl: no memory for a request", e);
	l->active = 1;
	if (pump(l, e))
		return -1;
	return l->done && l->result && l->begin == l->end ? curl_failed(l, e) : 0; /* bytes that came before a failure are taken first */
}

/* The new address, or NULL and *e. Caller frees with mem_free. */
static char *redirected(struct httplane *l, const char *from, struct err *e)
{
	char *to = NULL, *why;

	curl.easy_getinfo(l->easy, CURLINFO_REDIRECT_URL, &to);
	if (to && (!strncmp(to, "https://", 8) || (!strncmp(to, "http://", 7) && !strncmp(from, "http://", 7))))
		return mem_strdup(to);
	why = str_new("HTTP status %d, a redirection to %.*s, which is not followed", l->answer.status, to ? (int)strcspn(to, "?#") : 7,
	              to ? to : "nowhere");
	failed(l, ERR_DATA, 0, why, e);
	mem_free(why);
	return NULL;
}

static int refused(struct httplane *l, const struct http_request *r, struct err *e)
{
	int s = l->answer.status, busy = s == 408 || s == 429 || s >= 500;
	char why[160];

	snprintf(why, sizeof why, "HTTP status %d%s", s,
	         r->sign && (s == 301 || s == 307)                       ? ": the bucket is in another region (AWS_REGION)"
	         : r->sign && s == 403 && !remote_settings()->access_key ? "; no keys are set (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
	                                                                 : "");
	return failed(l, s == 401 || s == 403 || s == 404 || s == 410 ? ERR_NOINPUT : ERR_UNAVAILABLE, busy, why, e);
}

int httplane_begin(struct httplane *l, const struct http_request *r, struct http_answer *a, struct err *e)
{
	char *url = mem_strdup(r->url), *next;
	int rc = -1;

	for (int hops = 0;; hops++) {
		int status;

		if (send_request(l, r, url, e))
			break;
		status = l->answer.status;
		if (status / 100 == 3 && !r->sign) {
			if (hops == REDIRECTIONS) {
				failed(l, ERR_UNAVAILABLE, 0, "more than 5 redirections", e);
				break;
			}
			next = redirected(l, url, e);
			if (!next)
				break;
			mem_free(url);
			url = next;
			continue;
		}
		if (status == 200 || status == 206 || status == 416)
			rc = 0;
		else
			refused(l, r, e);
		break;
	}
	mem_free(url);
	*a = l->answer;
	if (rc)
		httplane_stop(l);
	return rc;
}

int httplane_take(struct httplane *l, void *p, size_t n, size_t *got, struct err *e)
{
	*got = 0;
	if (l->begin == l->end && !l->done && pump(l, e))
		return -1;
	if (l->begin == l->end && l->result)
		return curl_failed(l, e);
	*got = l->end - l->begin < n ? l->end - l->begin : n;
	if (p)
		memcpy(p, l->buf + l->begin, *got);
	l->begin += *got;
	return 0;
}

#else

/* A build without libcurl: no connection can be made, so that nothing else is called. */

struct httplane *httplane_borrow(const void *owner, int64_t at, int *goes_on, struct err *e)
{
	(void)owner;
	(void)at;
	*goes_on = 0;
	err_set(e, ERR_UNAVAILABLE,
	        "this program was built without libcurl 7.85 or later and reads no URLs: install it (Debian: libcurl4-openssl-dev) and build again");
	return NULL;
}

void httplane_return(struct httplane *l)
{
	(void)l;
}

void httplane_forget(const void *owner)
{
	(void)owner;
}

int httplane_begin(struct httplane *l, const struct http_request *r, struct http_answer *a, struct err *e)
{
	(void)l;
	(void)r;
	(void)a;
	(void)e;
	return -1;
}

int httplane_may_retry(const struct httplane *l)
{
	(void)l;
	return 0;
}

double httplane_retry_after(const struct httplane *l)
{
	(void)l;
	return 0;
}

int httplane_take(struct httplane *l, void *p, size_t n, size_t *got, struct err *e)
{
	(void)l;
	(void)p;
	(void)n;
	(void)got;
	(void)e;
	return -1;
}

int httplane_has_more(const struct httplane *l)
{
	(void)l;
	return 0;
}

void httplane_mark(struct httplane *l, const void *owner, int64_t at)
{
	(void)l;
	(void)owner;
	(void)at;
}

void httplane_stop(struct httplane *l)
{
	(void)l;
}

#endif
