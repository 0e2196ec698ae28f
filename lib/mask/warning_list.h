/* Lists of warnings that grow while a mask or weights are checked. */
#ifndef ATTN_WARNING_LIST_H
#define ATTN_WARNING_LIST_H

#include <attn/memory.h>
#include <attn/warning.h>

/* Appends a warning. Returns false if memory runs out. */
bool attn_warnings_add(attn_warnings *to, attn_arena *arena, const attn_warning *warning);

#endif
