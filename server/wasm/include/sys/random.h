/* Random numbers of the browser (absent.c). */
#ifndef SRV_WASM_RANDOM_H
#define SRV_WASM_RANDOM_H

#include <sys/types.h>

ssize_t getrandom(void *to, size_t size, unsigned flags);

#endif
