/* What the clients of the queue have used, so that it can serve them in turn: deficit round robin
 * (M. Shreedhar, G. Varghese, "Efficient Fair Queuing Using Deficit Round Robin", IEEE/ACM
 * Transactions on Networking 4(3), 1996) with processor time as the size of a task. A task's time
 * is known only when it has run, so a client pays afterwards: one with credit may run a task, one
 * without is passed over until the rounds have given him some. The caller's lock and clock. */
#ifndef SRV_ACCOUNTS_H
#define SRV_ACCOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_task srv_task; /* waiting.h */

/* What a client waits for: short work, or what is known to be long. */
enum { SRV_SHORT, SRV_LONG, SRV_LENGTHS };

typedef struct srv_account srv_account;
struct srv_account {
    uint64_t client;
    bool taken;
    int64_t credit_ns; /* negative: owed */
    int64_t used_ns;   /* when it was last charged */
    size_t waiting, running;
    struct srv_task_list {
        srv_task *first, *last;
    } tasks[SRV_LENGTHS];         /* in order of arrival */
    srv_account *next, *previous; /* the ring of those with waiting tasks */
};

enum { SRV_ACCOUNTS = 1024 }; /* clients beyond so many share accounts */
/* Credit of a round, and most that anybody has: less than a task takes. */
#define SRV_QUANTUM_NS 100000
#define SRV_DEBT_NS    60000000000

typedef struct srv_accounts {
    srv_account list[SRV_ACCOUNTS];
} srv_accounts;

/* The account of a client, made when there is none. */
srv_account *srv_account_of(srv_accounts *a, uint64_t client);
/* It has used `ns` of processor time; negative: some of what it paid comes back. Debts are bounded.
 */
void srv_account_charge(srv_account *account, int64_t ns, int64_t now_ns);
/* It asks for something. A debt gets less in the time in which a client asks for nothing. */
void srv_account_come_back(srv_account *account, int64_t now_ns);

#endif
