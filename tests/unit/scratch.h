/* scratch.h - files for one test, in a folder of their own. Each Criterion test is a
 * process; the folder is removed by scratch_remove(), a test's .fini. */
#ifndef RELMQ_TESTS_SCRATCH_H
#define RELMQ_TESTS_SCRATCH_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char scratch[64];

/* Write a file (replacing one of that name) and return its path: good until the next call. */
static inline const char *scratch_write(const char *name, const char *bytes, size_t n)
{
	static char path[128];
	if (scratch[0] == '\0') {
		(void) snprintf(scratch, sizeof(scratch), "/tmp/relmq-unit-XXXXXX");
		cr_assert_not_null(mkdtemp(scratch));
	}
	(void) snprintf(path, sizeof(path), "%s/%s", scratch, name);
	FILE *f = fopen(path, "w");
	cr_assert_not_null(f);
	cr_assert_eq(fwrite(bytes, 1, n, f), n);
	cr_assert_eq(fclose(f), 0);
	return path;
}

static inline const char *scratch_text(const char *name, const char *text)
{
	return scratch_write(name, text, strlen(text));
}

static inline void scratch_remove(void)
{
	DIR *dir = scratch[0] != '\0' ? opendir(scratch) : NULL;
	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
		if (e->d_name[0] != '.')
			(void) unlinkat(dirfd(dir), e->d_name, 0);
	if (dir != NULL)
		(void) closedir(dir);
	(void) rmdir(scratch);
}

#endif
