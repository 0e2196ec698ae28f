/* Tells a service manager about the state of this process, as sd_notify(3) describes. */
#ifndef SRV_NOTIFY_H
#define SRV_NOTIFY_H

/* Sends a datagram such as "READY=1" to the socket that the environment names in NOTIFY_SOCKET.
 * Does nothing if NOTIFY_SOCKET is not set, or if no process receives at the socket. */
void srv_notify(const char *state);
/* Sends RELOADING=1 with the time of CLOCK_MONOTONIC, which Type=notify-reload wants. Send
 * READY=1 when the reload has ended. */
void srv_notify_reloading(void);

#endif
