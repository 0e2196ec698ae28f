/* What the queue has to know of a body before anybody has decoded it. */
#ifndef SRV_PEEK_H
#define SRV_PEEK_H

#include <stddef.h>
#include <stdint.h>

/* timeout_ms of a JSON object, or 0: not there, or no number that could be one. The text need not
 * be JSON; the decoder judges it later. */
int64_t srv_peek_timeout(const char *text, size_t size);
/* The same of `parameters.timeout` of the Open Inference Protocol, in microseconds. */
int64_t srv_peek_infer_timeout(const char *text, size_t size);

#endif
