/* See criterion.h. */
#include "criterion.h"
