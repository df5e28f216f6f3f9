/* Errors as values: formatting, prefixes, and which system call failed on what. */
#include "core/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void format(struct err *e, int code, const char *fmt, va_list ap)
{
	e->code = code;
	vsnprintf(e->msg, sizeof e->msg, fmt, ap);
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e || e->code)
		return -1;
	va_start(ap, fmt);
	format(e, code, fmt, ap);
	va_end(ap);
	return -1;
}

static int code_of_errno(int n)
{
	switch (n) {
	case ENOENT:
	case ENOTDIR:
		return ERR_NOINPUT;
	case ENOMEM:
		return ERR_NOMEM;
	case EEXIST:
		return ERR_EXISTS;
	case EINTR:
		return ERR_AGAIN;
	default:
		return ERR_IO;
	}
}

int err_errno(struct err *e, const char *fmt, ...)
{
	int n = errno;
	size_t len;
	va_list ap;

	if (!e || e->code)
		return -1;
	va_start(ap, fmt);
	format(e, code_of_errno(n), fmt, ap);
	va_end(ap);
	len = strlen(e->msg);
	snprintf(e->msg + len, sizeof e->msg - len, ": %s", strerror(n));
	return -1;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
	char old[sizeof e->msg];
	size_t len;
	va_list ap;

	if (!e || !e->code)
		return -1;
	memcpy(old, e->msg, sizeof old);
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	len = strlen(e->msg);
	snprintf(e->msg + len, sizeof e->msg - len, ": %s", old);
	return -1;
}

int err_lacking(struct err *e, const char *name)
{
	static const char by[] = "; fetch-weights ";
	size_t n = e ? strlen(e->msg) : 0;

	if (e && e->code == ERR_NOINPUT && !strstr(e->msg, by))
		snprintf(e->msg + n, sizeof e->msg - n, "%s%s %s", by, name ? name : "--list", name ? "gets it" : "lists published weights");
	return -1;
}
