/* base/utf8.c - see utf8.h. */
#include "base/utf8.h"

#include <stdint.h>

size_t relmq__utf8_width(const char *s, size_t n)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *) s;
	if (n == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	size_t width = p[0] >= 0xf0 && p[0] < 0xf8 ? 4
	    : p[0] >= 0xe0 && p[0] < 0xf0          ? 3
	    : p[0] >= 0xc0 && p[0] < 0xe0          ? 2
	                                           : 0;
	if (width == 0 || n < width)
		return 0;
	uint32_t point = p[0] & (0xffU >> (width + 1));
	for (size_t i = 1; i < width; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (p[i] & 0x3fU);
	}
	if (point < least[width] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	return width;
}

bool relmq__utf8_ok(const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t width = relmq__utf8_width(s + i, n - i);
		if (width == 0)
			return false;
		i += width;
	}
	return true;
}

size_t relmq__utf8_cut(const char *s, size_t n, size_t max)
{
	if (n <= max)
		return n;
	size_t cut = max;
	while (cut > 0 && max - cut < 4 && ((unsigned char) s[cut] & 0xc0) == 0x80)
		cut--;
	return cut;
}

bool relmq__utf8_plain(const char *s, size_t width)
{
	const unsigned char *c = (const unsigned char *) s;
	if (width == 1)
		return c[0] >= 0x20 && c[0] != 0x7f;
	if (width == 2)
		return c[0] != 0xc2 || c[1] >= 0xa0;
	if (width == 3 && c[0] == 0xe2)
		return !(c[1] == 0x80 &&
		           (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xaa && c[2] <= 0xae))) &&
		    !(c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9);
	return width != 0;
}
