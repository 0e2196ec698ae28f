/* Signals that end a long command in good order. */
#include <signal.h>

#include "command/command.h"

static atomic_int asked;

static void ask(int number) {
    (void)number;
    atomic_store(&asked, 1);
}

atomic_int *srv_command_watch_stop(void) {
    struct sigaction action = {.sa_handler = ask, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &asked;
}
