/* The temporaries this process has made and not yet published or removed, for the program that must end at once: without memory
 * no clean-up path can be trusted. commit.c keeps the list. */
#ifndef DDM_FILE_PENDING_H
#define DDM_FILE_PENDING_H

/* Make a file (a descriptor for writing, which must not exist yet) or a folder (0) and list it. -1 with errno. */
int pending_file(const char *path);
int pending_folder(const char *path);

/* Whether the path lies in a listed folder. */
int pending_holds(const char *path);

/* List a file that somebody else makes: reserve allocates, before the file is there; note lists it and cannot fail; forget drops what was not
 * noted. */
struct pending *pending_reserve(const char *path);
void pending_note(struct pending *p);
void pending_forget(struct pending *p);

/* rename(2), after which it is no longer listed. */
int pending_rename(const char *path, const char *to);

/* Remove it, a folder with all that is in it, allocating nothing. */
void pending_discard(const char *path);

/* The same for all that are listed. The process must end afterwards: other threads that make or rename one wait until then. */
void pending_remove(void);

#endif
