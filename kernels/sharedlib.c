/* Opens a shared library and finds its functions (kernels/sharedlib.h). */
#include "kernels/sharedlib.h"

#include <dlfcn.h>

#include "core/str.h"

static void *open_first(const char *const *names, const char *title, const char *package, struct err *e)
{
	struct str tried = {0};
	void *so = NULL;

	for (int i = 0; names[i] && !so; i++) {
		so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		str_printf(&tried, "%s%s", i ? ", " : "", names[i]);
	}
	if (!so)
		err_set(e, ERR_UNAVAILABLE, "%s cannot be opened (%s): it is in %s", title, str_text(&tried), package);
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
