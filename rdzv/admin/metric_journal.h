/* The metrics of a store's journal, whichever it is. */
#pragma once

#include <stdio.h>

#include "rdzv/engine/engine.h"

void metrics_write_journal(FILE *out, const struct engine *e);
