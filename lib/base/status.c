/* Names of status codes, and attn_fail, which fills an error record that the caller owns. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attn/attn.h"
#include "base/try.h"

const char *attn_version(void) {
    return ATTN_VERSION;
}

const char *attn_status_name(attn_status code) {
    switch (code) {
    case ATTN_OK:
        return "ok";
    case ATTN_ENOMEM:
        return "memory";
    case ATTN_EARG:
        return "argument";
    case ATTN_ESHAPE:
        return "shape";
    case ATTN_EDTYPE:
        return "dtype";
    case ATTN_EVALUE:
        return "value";
    case ATTN_ELIMIT:
        return "limit";
    case ATTN_ECANCELED:
        return "canceled";
    case ATTN_EDEADLINE:
        return "deadline";
    case ATTN_EUNSUPPORTED:
        return "unsupported";
    case ATTN_ESEMANTICS:
        return "semantics";
    case ATTN_ENONFINITE:
        return "nonfinite";
    }
    return "unknown";
}

static attn_status fail(attn_error *err, attn_status code, const char *where, double limit,
                        const char *format, va_list args) {
    if (err) {
        err->code = code;
        err->limit = limit;
        snprintf(err->where, sizeof err->where, "%s", where ? where : "");
        vsnprintf(err->text, sizeof err->text, format, args);
    }
    return code;
}

attn_status attn_fail(attn_error *err, attn_status code, const char *where, const char *format,
                      ...) {
    va_list args;
    va_start(args, format);
    fail(err, code, where, 0, format, args);
    va_end(args);
    return code;
}

attn_status attn_fail_limit(attn_error *err, const char *where, double limit, const char *format,
                            ...) {
    va_list args;
    va_start(args, format);
    fail(err, ATTN_ELIMIT, where, limit, format, args);
    va_end(args);
    return ATTN_ELIMIT;
}

attn_status attn_error_within(attn_status status, const char *outer, attn_error *err) {
    if (status && err) {
        const attn_error inner = *err;
        attn_fail(err, status, outer, "%s", inner.text);
        err->limit = inner.limit;
        const size_t used = strlen(err->where);
        snprintf(err->where + used, sizeof err->where - used, "%s%s", *inner.where ? "/" : "",
                 inner.where);
    }
    return status;
}

attn_status attn_no_memory(attn_error *err, const char *what) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for %s", what);
}
