/* A process between this program and a launcher, so that nothing is left of the launcher's ranks:
 * also where this program is killed outright, or the launcher hangs, or ends while it starts some.
 */
#ifndef KEEPER_H
#define KEEPER_H

#include <sys/types.h>

/* To be called by a process just forked by `supervisor`; never returns.  A child of it becomes the
 * launcher by `become`, which does not return either.  When that has ended, what it left behind on
 * this machine is killed, and the keeper ends as it did: 128 + the signal if there was one.
 * SIGTERM, which also comes when the supervisor is gone, ends the launcher, by force where it does
 * not listen; SIGINT is passed on. */
void keeper_become(pid_t supervisor, void (*become)(const void *self), const void *self);

/* So long the supervisor waits after SIGTERM before it kills the keeper itself, and with it all
 * hope for what the launcher left behind. */
enum { KEEPER_ENDS_MS = 15000 };

#endif
