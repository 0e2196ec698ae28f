/* The route table is searched from the top. Rows whose path templates begin alike stand together.
 * If the path does not match the common beginning of a row and the row before it, the second row is
 * skipped. A {name} in a template matches one non-empty segment of the path. A path with a trailing
 * slash is another path than one without. */
#include "http/router.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/nearest.h"

/* Returns the length of the common beginning of two texts. If they are equal, their NUL counts
 * too. */
static size_t shared_with(const char *a, const char *b) {
    size_t n = 0;
    while (a[n] == b[n] && a[n])
        n++;
    return n + (a[n] == b[n]);
}

bool srv_router_init(srv_router *router, const srv_route *routes) {
    *router = (srv_router){.routes = routes};
    while (routes[router->count].method)
        router->count++;
    router->labels = calloc(router->count + 1, sizeof *router->labels);
    router->label_of = calloc(router->count + 1, sizeof *router->label_of);
    router->shared = calloc(router->count + 1, sizeof *router->shared);
    if (!router->labels || !router->label_of || !router->shared) {
        srv_router_close(router);
        return false;
    }
    for (size_t row = 0; row < router->count; row++) {
        size_t label = 0;
        while (label < router->label_count && strcmp(router->labels[label], routes[row].path))
            label++;
        if (label == router->label_count)
            router->labels[router->label_count++] = routes[row].path;
        router->label_of[row] = label;
        router->shared[row] = row ? shared_with(routes[row].path, routes[row - 1].path) : 0;
    }
    return true;
}

void srv_router_close(srv_router *router) {
    free(router->labels);
    free(router->label_of);
    free(router->shared);
    *router = (srv_router){0};
}

#define FITS SIZE_MAX

/* Returns the index of the first character of `template` that does not match `path`; FITS: the
 * template matches the whole path. Writes the beginning and size of each parameter in `path` to
 * from[] and size[]. */
static size_t misfit(const char *template, const char *path, const char *from[2], size_t size[2]) {
    const char *pattern = template;
    size_t params = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '{') {
            size_t n = strcspn(path, "/");
            if (n == 0 || params == 2)
                break;
            from[params] = path;
            size[params++] = n;
            pattern += strcspn(pattern, "}");
            path += n;
        } else if (*pattern != *path++) {
            break;
        }
    }
    return *pattern == 0 && *path == 0 ? FITS : (size_t)(pattern - template);
}

static void allow(srv_match *match, const char *method) {
    size_t used = strlen(match->allow);
    if (used + strlen(method) + 3 > sizeof match->allow)
        return;
    strcat(match->allow + used, used ? ", " : "");
    strcat(match->allow + used, method);
}

static void copy_params(srv_match *match, const char *const from[2], const size_t size[2],
                        char *text) {
    for (size_t i = 0; i < 2 && from[i]; i++) {
        memcpy(text, from[i], size[i]);
        text[size[i]] = 0;
        match->params[i] = text;
        text += size[i] + 1;
    }
}

void srv_router_find(const srv_router *router, const char *method, const char *path, char *text,
                     srv_match *match) {
    *match = (srv_match){.label = router->label_count};
    const char *wanted = strcmp(method, "HEAD") ? method : "GET";
    for (size_t row = 0, at = FITS; row < router->count; row++) {
        const srv_route *route = &router->routes[row];
        const char *from[2] = {NULL, NULL};
        size_t size[2] = {0, 0};
        if (at < router->shared[row])
            continue; /* the path does not match the common beginning with the row before */
        at = misfit(route->path, path, from, size);
        if (at != FITS)
            continue;
        /* Several templates may match, such as /a/b and /a/{x}. Only the first one counts; it may
         * have several rows, one for each method. */
        if (match->label != router->label_count && router->label_of[row] != match->label)
            continue;
        match->label = router->label_of[row];
        allow(match, route->method);
        if (!strcmp(route->method, "GET"))
            allow(match, "HEAD");
        if (!strcmp(route->method, wanted)) {
            match->route = route;
            copy_params(match, from, size, text);
        }
    }
    if (match->label != router->label_count)
        allow(match, "OPTIONS");
}

/* --- the nearest path --- */

/* Differences other than edits of letters. Each counts as this many edits of a letter. */
enum {
    OTHER_VERSION = 2, /* another version; then only one edit of a letter is allowed */
    OTHER_LENGTH = 3,  /* a segment too many or too few */
};

/* Returns the size of the version in front of the path, 3 for "/v1/runs". 0: there is none. */
static size_t version_size(const char *path) {
    return path[0] == '/' && (path[1] == 'v' || path[1] == 'V') && path[2] >= '0' &&
                   path[2] <= '9' && (path[3] == '/' || path[3] == 0)
               ? 3
               : 0;
}

/* Returns the number of edits between a segment of the path (n bytes) and a segment of a template
 * (m bytes). SIZE_MAX: they are too different. */
static size_t segment_edits(const char *path, size_t n, const char *template, size_t m) {
    char word[64], name[64];
    if (*template == '{')
        return n ? 0 : SIZE_MAX;
    if (n >= sizeof word || m >= sizeof name)
        return SIZE_MAX;
    snprintf(word, sizeof word, "%.*s", (int)n, path);
    snprintf(name, sizeof name, "%.*s", (int)m, template);
    return srv_edits(word, name);
}

/* Returns the number of edits between the path and a template. SIZE_MAX: a segment is too
 * different, or the only segments that the path shares with the template are the version and
 * parameters. */
static size_t path_edits(const char *path, const char *template) {
    const size_t v = version_size(path), w = version_size(template);
    const bool other = v != w || strncmp(path, template, v) != 0;
    size_t edits = other ? OTHER_VERSION : 0;
    bool named = false;
    for (path += v, template += w; *path == '/' && *template == '/';) {
        const size_t n = strcspn(++path, "/"), m = strcspn(++template, "/");
        if (n == 0 || m == 0) { /* the path or the template ends with a slash */
            path--;
            template --;
            break;
        }
        const size_t d = segment_edits(path, n, template, m);
        if (d == SIZE_MAX)
            return SIZE_MAX;
        named = named || *template != '{';
        edits += d;
        path += n;
        template += m;
    }
    const char *rest = *path ? path : template;
    if (!named || (*path && *template) || (*rest && strchr(rest + 1, '/')))
        return SIZE_MAX;
    if (edits > OTHER_VERSION + 1 && other)
        return SIZE_MAX;
    return edits + (*rest ? OTHER_LENGTH : 0);
}

/* Writes the template to `buf`, with the segments of the path in place of its parameters. */
static void fill_template(const char *path, const char *template, char *buf, size_t size) {
    size_t used = 0;
    path += version_size(path);
    if (version_size(template)) {
        used = (size_t)snprintf(buf, size, "%.3s", template);
        template += 3;
    }
    while (*template == '/' && used < size) {
        const size_t n = *path ? strcspn(path + 1, "/") : 0, m = strcspn(template + 1, "/");
        const bool taken = template[1] == '{' && n > 0;
        used += (size_t)snprintf(buf + used, size - used, "/%.*s", (int)(taken ? n : m),
                                 taken ? path + 1 : template + 1);
        path += *path ? n + 1 : 0;
        template += m + 1;
    }
}

/* Paths that were renamed, and whose old names differ in too many letters to be found as
 * similar. */
static const struct {
    const char *was, *now;
} renamed[] = {{"/v1/runs/{id}/metrics", "/v1/runs/{id}/analyses"}};

bool srv_router_nearest(const srv_router *router, const char *path, char *buf, size_t size) {
    size_t best = SIZE_MAX;
    const char *nearest = NULL, *from[2];
    size_t sizes[2];
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed && best; i++)
        if (misfit(renamed[i].was, path, from, sizes) == FITS) {
            best = 0;
            nearest = renamed[i].now;
        }
    for (size_t i = 0; i < router->label_count; i++) {
        const size_t edits = path_edits(path, router->labels[i]);
        if (edits < best) {
            best = edits;
            nearest = router->labels[i];
        }
    }
    if (nearest)
        fill_template(path, nearest, buf, size);
    return nearest != NULL;
}
