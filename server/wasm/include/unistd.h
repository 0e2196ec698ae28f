/* unistd.h of wasi-libc, and a function that it lacks. */
#include_next <unistd.h>

#ifndef SRV_WASM_UNISTD_H
#define SRV_WASM_UNISTD_H

int dup(int fd);

#endif
