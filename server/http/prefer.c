/* The grammar of RFC 7240, section 2, where BWS and OWS are optional blanks:
 *
 *   Prefer     = 1#preference
 *   preference = token [ BWS "=" BWS word ] *( OWS ";" [ OWS parameter ] )
 *   parameter  = token [ BWS "=" BWS word ]
 *   word       = token / quoted-string */
#include "http/prefer.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* A part of the header's value. */
typedef struct part {
    const char *text;
    size_t size;
} part;

/* A preference or a parameter. A word that is missing or empty has the size 0. */
typedef struct pair {
    part name, word;
} pair;

static const char *skip_blanks(const char *p) {
    return p + strspn(p, " \t");
}

static const char *read_token(const char *p, part *out) {
    *out = (part){p, strcspn(p, " \t\"(),/:;<=>?@[\\]{}")};
    return p + out->size;
}

/* Reads a quoted string, whose text stays as it was sent. NULL: its end is missing. */
static const char *read_quoted(const char *p, part *out) {
    const char *from = ++p;
    while (*p && *p != '"')
        p += *p == '\\' && p[1] ? 2 : 1;
    *out = (part){from, (size_t)(p - from)};
    return *p ? p + 1 : NULL;
}

/* Reads a preference or a parameter into *out. Returns the position behind it. NULL: there is
 * none. */
static const char *read_pair(const char *p, pair *out) {
    *out = (pair){.word = {p, 0}};
    p = read_token(p, &out->name);
    if (!out->name.size)
        return NULL;
    const char *after = skip_blanks(p);
    if (*after != '=')
        return p;
    after = skip_blanks(after + 1);
    return *after == '"' ? read_quoted(after, &out->word) : read_token(after, &out->word);
}

static bool is(const part *name, const char *known) {
    return name->size == strlen(known) && !strncasecmp(name->text, known, name->size);
}

/* Returns the word as a number of seconds. -1: the word does not consist of 1 to 9 digits. */
static int64_t seconds_of(const part *word) {
    int64_t value = 0;
    if (!word->size || word->size > 9)
        return -1;
    for (size_t i = 0; i < word->size; i++) {
        if (word->text[i] < '0' || word->text[i] > '9')
            return -1;
        value = 10 * value + (word->text[i] - '0');
    }
    return value;
}

static void take(const pair *preference, srv_prefer *out) {
    if (is(&preference->name, "respond-async") && !preference->word.size)
        out->respond_async = true;
    if (is(&preference->name, "wait") && !out->has_wait) {
        out->has_wait = true;
        out->wait_s = seconds_of(&preference->word);
    }
}

void srv_prefer_read(const char *p, srv_prefer *out) {
    pair preference, parameter;
    while (p && *(p += strspn(p, " \t,"))) {
        p = read_pair(p, &preference);
        if (!p)
            return;
        take(&preference, out);
        for (p = skip_blanks(p); p && *p == ';'; p = p ? skip_blanks(p) : NULL) {
            p = skip_blanks(p + 1);
            if (*p && *p != ';' && *p != ',')
                p = read_pair(p, &parameter);
        }
        if (p && *p && *p != ',')
            return;
    }
}
