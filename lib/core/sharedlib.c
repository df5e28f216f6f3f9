/* Opens a shared library and finds its functions (core/sharedlib.h). */
#include "core/sharedlib.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

/* Whether dlopen says only that there is no such file, in the words of glibc. */
static int is_absent(const char *name, const char *why)
{
	size_t n = strlen(name);

	return !strncmp(why, name, n) && strstr(why + n, "No such file or directory");
}

/* Of several reasons the first is kept, or the first about a file that is there, such as one whose own libraries are missing. */
static void *open_first(const char *const *names, const char *title, const char *package, struct err *e)
{
	struct str tried = {0};
	char *reason = NULL;
	int absent = 1;
	void *so = NULL;

	assert(names[0]);
	for (int i = 0; names[i] && !so; i++) {
		const char *why;

		if ((so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL)))
			break;
		str_printf(&tried, "%s%s", i ? ", " : "", names[i]);
		why = dlerror();
		if (!reason || (absent && !is_absent(names[i], why))) {
			mem_free(reason);
			reason = mem_strdup(why);
			absent = is_absent(names[i], why);
		}
	}
	if (!so)
		err_set(e, ERR_UNAVAILABLE, "%s cannot be opened (tried %s): %s; it is in %s", title, str_text(&tried), reason, package);
	mem_free(reason);
	str_release(&tried);
	return so;
}

int sharedlib_open(const char *const *names, const char *title, const char *package, const struct sharedlib_function *functions, size_t n,
                   struct err *e)
{
	void *so = open_first(names, title, package, e);

	if (!so)
		return -1;
	for (size_t i = 0; i < n; i++) {
		void *f = dlsym(so, functions[i].name);

		if (!f) {
			dlclose(so);
			return err_set(e, ERR_UNAVAILABLE, "%s has no function %s", title, functions[i].name);
		}
		*(void **)functions[i].place = f; /* POSIX: a function's address fits */
	}
	return 0;
}
