/* base/cell.c - see cell.h. */
#include "base/cell.h"

#include "base/utf8.h"

void relmq__cell_print(FILE *out, const char *text, size_t len, int width)
{
	int used = 0;
	for (size_t i = 0; i < len && used < width; used++) {
		size_t n = relmq__utf8_width(text + i, len - i);
		if (!relmq__utf8_plain(text + i, n))
			(void) putc(n == 0 ? '?' : '.', out);
		else
			(void) fwrite(text + i, 1, n, out);
		i += n != 0 ? n : 1;
	}
	for (; used < width; used++)
		(void) putc(' ', out);
}

void relmq__cell_print_whole(FILE *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t n = relmq__utf8_width(text + i, len - i);
		size_t end = i + (n != 0 ? n : 1);
		bool plain = relmq__utf8_plain(text + i, n);
		for (; i < end; i++)
			if (plain)
				(void) putc(text[i], out);
			else
				(void) fprintf(out, "\\x%02x", (unsigned) (unsigned char) text[i]);
	}
}

bool relmq__cell_is_text(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t n = relmq__utf8_width(bytes + i, len - i);
		if (!relmq__utf8_plain(bytes + i, n) && bytes[i] != '\n' && bytes[i] != '\t')
			return false;
		i += n;
	}
	return true;
}

void relmq__cell_print_body(FILE *out, const char *bytes, size_t len)
{
	if (relmq__cell_is_text(bytes, len))
		(void) fwrite(bytes, 1, len, out);
	else
		for (size_t i = 0; i < len; i++)
			(void) fprintf(out, "%02x%s", (unsigned) (unsigned char) bytes[i],
			    i % 32 == 31 && i + 1 < len ? "\n" : "");
	(void) putc('\n', out);
}

void relmq__age_text(int64_t s, char out[RELMQ__AGE_SIZE])
{
	if (s < 0)
		(void) snprintf(out, RELMQ__AGE_SIZE, "?");
	else if (s < 120)
		(void) snprintf(out, RELMQ__AGE_SIZE, "%llds", (long long) s);
	else if (s < 7200)
		(void) snprintf(out, RELMQ__AGE_SIZE, "%lldm", (long long) (s / 60));
	else if (s < 172800)
		(void) snprintf(out, RELMQ__AGE_SIZE, "%lldh", (long long) (s / 3600));
	else
		(void) snprintf(out, RELMQ__AGE_SIZE, "%lldd", (long long) (s / 86400));
}
