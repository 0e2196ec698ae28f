/* version "-" trace-id "-" parent-id "-" trace-flags, two, 32, 16 and two hexadecimal digits. */
#include "observe/trace.h"

#include <string.h>

#include "number/print_small.h"

enum { ID = 3, PARENT = 36, FLAGS = 53 }; /* where they begin */

/* Exactly `count` lower-case hexadecimal digits. */
static bool is_hex(const char *text, size_t count) {
    return strspn(text, "0123456789abcdef") >= count;
}

static bool is_zero(const char *text, size_t count) {
    return strspn(text, "0") >= count;
}

/* Later versions may have more behind another "-", and are read as version 00. */
static bool is_valid(const char *text) {
    size_t size = strlen(text);
    while (size && (text[size - 1] == ' ' || text[size - 1] == '\t'))
        size--;
    if (size < SRV_TRACE_TEXT || !is_hex(text, 2) || !memcmp(text, "ff", 2))
        return false;
    bool first = !memcmp(text, "00", 2);
    if (first ? size > SRV_TRACE_TEXT : size > SRV_TRACE_TEXT && text[SRV_TRACE_TEXT] != '-')
        return false;
    return text[ID - 1] == '-' && is_hex(text + ID, 32) && !is_zero(text + ID, 32) &&
           text[PARENT - 1] == '-' && is_hex(text + PARENT, 16) && !is_zero(text + PARENT, 16) &&
           text[FLAGS - 1] == '-' && is_hex(text + FLAGS, 2);
}

/* 16 digits, never all zero. */
static void put_hex(char *to, uint64_t bits) {
    bits += bits == 0;
    for (int i = 15; i >= 0; i--, bits >>= 4)
        to[i] = "0123456789abcdef"[bits & 15];
    to[16] = 0;
}

void srv_trace_begin(srv_trace *trace, const char *header, const uint64_t random[3]) {
    *trace = (srv_trace){0};
    put_hex(trace->span, random[0]);
    if (header && is_valid(header)) {
        memcpy(trace->id, header + ID, 32);
        memcpy(trace->parent, header + PARENT, 16);
        trace->sampled = strchr("13579bdf", header[FLAGS + 1]);
        return;
    }
    put_hex(trace->id, random[1]);
    put_hex(trace->id + 16, random[2]);
}

void srv_trace_text(const srv_trace *trace, char text[SRV_TRACE_TEXT + 1]) {
    char *p = attn_put(attn_put(attn_put(text, "00-"), trace->id), "-");
    memcpy(attn_put(attn_put(p, trace->span), trace->sampled ? "-01" : "-00"), "", 1);
}
