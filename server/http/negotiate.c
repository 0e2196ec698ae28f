/* Accept is a list of ranges with weights, such as "text/plain;q=0.5, image/png". A media type has
 * the weight of the most specific range that matches the type (RFC 9110, 12.5.1). */
#include "http/negotiate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "request/request.h"
#include "wire/container.h"

/* The media types of answers, in the order in which types of equal weight are chosen. */
static const struct {
    unsigned bit;
    const char *type, *group;
} known[] = {
    {SRV_ACCEPT_JSON, "application/json", "application/*"},
    {SRV_ACCEPT_TEXT, "text/plain", "text/*"},
    {SRV_ACCEPT_SAFETENSORS, "application/vnd.safetensors", "application/*"},
    {SRV_ACCEPT_NPY, "application/x-npy", "application/*"},
    {SRV_ACCEPT_OCTETS, SRV_OCTETS, "application/*"},
    {SRV_ACCEPT_PNG, "image/png", "image/*"},
    {SRV_ACCEPT_SVG, "image/svg+xml", "image/*"},
    {SRV_ACCEPT_CSV, "text/csv", "text/*"},
    {SRV_ACCEPT_EVENTS, "text/event-stream", "text/*"},
    {SRV_ACCEPT_HTML, "text/html", "text/*"},
};
#define KNOWN (sizeof known / sizeof *known)

bool srv_type_is_body(const char *type) {
    return srv_type_is_json(type) || !strcmp(type, SRV_SAFETENSORS) || !strcmp(type, SRV_NPY) ||
           !strcmp(type, SRV_NPZ);
}

bool srv_type_is_intake(const char *type) {
    return srv_type_is_json(type) || !strcmp(type, SRV_SAFETENSORS) || !strcmp(type, SRV_OCTETS);
}

bool srv_type_is_json(const char *type) {
    return !*type || !strcmp(type, "application/json") ||
           !strcmp(type, "application/x-www-form-urlencoded");
}

bool srv_type_is_utf8(const char *header) {
    static const char *const names[] = {"utf-8", "utf8", "us-ascii"};
    const char *p = strchr(header, ';');
    while (p) {
        p += 1 + strspn(p + 1, " \t");
        if (!strncasecmp(p, "charset=", 8))
            break;
        p = strchr(p, ';');
    }
    if (!p)
        return true;
    p += 8 + (p[8] == '"');
    size_t size = strcspn(p, "\"; \t");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (size == strlen(names[i]) && !strncasecmp(p, names[i], size))
            return true;
    return false;
}

const char *srv_accept_names(unsigned produces, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < KNOWN && used < size; i++) {
        if (!(produces & known[i].bit))
            continue;
        produces &= ~known[i].bit;
        const char *join = used == 0 ? "" : produces ? ", " : " or ";
        int n = snprintf(text + used, size - used, "%s%s%s", join, known[i].type,
                         known[i].bit == SRV_ACCEPT_NPY ? " (of one tensor)" : "");
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

/* Reads a weight in thousandths, such as 250 for "0.25". Returns 0 if the text is no weight. */
static int thousandths(const char *text, size_t size) {
    int value = 0, unit = 1000;
    if (!size || (text[0] != '0' && text[0] != '1'))
        return 0;
    value = (text[0] - '0') * unit;
    for (size_t i = 2; i < size && i < 5 && text[1] == '.'; i++) {
        unit /= 10;
        if (text[i] < '0' || text[i] > '9')
            break;
        value += (text[i] - '0') * unit;
    }
    return value > 1000 ? 1000 : value;
}

/* Returns the weight of a list element such as "text/plain;q=0.5" in thousandths; 1000 if it has no
 * q parameter. */
static int weight_of(const char *p, const char *end) {
    while ((p = memchr(p, ';', (size_t)(end - p)))) {
        p++;
        while (p < end && (*p == ' ' || *p == '\t'))
            p++;
        if (end - p >= 2 && (*p == 'q' || *p == 'Q') && p[1] == '=') {
            const char *from = p + 2;
            size_t size = 0;
            while (from + size < end && strchr("0123456789.", from[size]))
                size++;
            return thousandths(from, size);
        }
    }
    return 1000;
}

unsigned srv_accept_choose(const char *accept, unsigned produces) {
    int weight[KNOWN], rank[KNOWN];
    for (size_t i = 0; i < KNOWN; i++)
        weight[i] = accept && *accept ? 0 : 1000, rank[i] = -1;
    for (const char *p = accept ? accept : ""; *p;) {
        p += strspn(p, " \t,");
        const char *end = p + strcspn(p, ",");
        size_t size = strcspn(p, "; \t,");
        int w = size ? weight_of(p, end) : 0;
        for (size_t i = 0; size && i < KNOWN; i++) {
            int how = size == 3 && !strncmp(p, "*/*", 3)                                        ? 0
                      : size == strlen(known[i].group) && !strncasecmp(p, known[i].group, size) ? 1
                      : size == strlen(known[i].type) && !strncasecmp(p, known[i].type, size)   ? 2
                                                                                              : -1;
            if (how >= 0 && how >= rank[i]) {
                rank[i] = how;
                weight[i] = w;
            }
        }
        p = end;
    }
    unsigned best = 0;
    int best_weight = 0;
    for (size_t i = 0; i < KNOWN; i++)
        if ((produces & known[i].bit) && weight[i] > best_weight) {
            best = known[i].bit;
            best_weight = weight[i];
        }
    return best;
}

srv_coding srv_coding_of(const char *value) {
    if (!value || !strcasecmp(value, "identity"))
        return SRV_IDENTITY;
    if (!strcasecmp(value, "gzip") || !strcasecmp(value, "x-gzip"))
        return SRV_GZIP;
    return strcasecmp(value, "deflate") ? SRV_UNKNOWN_CODING : SRV_DEFLATE;
}

/* Returns the weight of a coding in thousandths; 0: Accept-Encoding does not name it. */
static int weight_of_coding(const char *accept, const char *name) {
    for (const char *p = accept ? accept : ""; *p;) {
        p += strspn(p, " \t,");
        const char *end = p + strcspn(p, ",");
        size_t size = strcspn(p, "; \t,");
        if (size == strlen(name) && !strncasecmp(p, name, size))
            return weight_of(p, end);
        p = end;
    }
    return 0;
}

bool srv_coding_is_brotli(const char *accept) {
    int weight = weight_of_coding(accept, "br");
    return weight > 0 && weight >= weight_of_coding(accept, "gzip");
}

srv_coding srv_coding_choose(const char *accept) {
    /* Weights of identity, gzip and deflate in thousandths, for codings that Accept-Encoding does
     * not name. Identity has the weight 1. Therefore a named coding is preferred to identity, and
     * identity is preferred to a refusal. */
    int weight[3] = {1, 0, 0};
    bool named[3] = {false, false, false};
    for (const char *p = accept ? accept : ""; *p;) {
        p += strspn(p, " \t,");
        const char *end = p + strcspn(p, ",");
        size_t size = strcspn(p, "; \t,");
        for (int i = 0; size && i < 3; i++) {
            static const char *const names[] = {"identity", "gzip", "deflate"};
            bool this_one = strlen(names[i]) == size && !strncasecmp(p, names[i], size);
            if (!this_one && (named[i] || size != 1 || *p != '*'))
                continue;
            weight[i] = weight_of(p, end);
            named[i] = named[i] || this_one;
        }
        p = end;
    }
    srv_coding best = weight[SRV_GZIP] >= weight[SRV_DEFLATE] ? SRV_GZIP : SRV_DEFLATE;
    best = weight[SRV_IDENTITY] > weight[best] ? SRV_IDENTITY : best;
    return weight[best] > 0 ? best : SRV_UNKNOWN_CODING;
}
