/* The keeper is a process between this program and a launcher.  It makes sure that no rank of the
 * launcher survives: also if this program is killed, or the launcher hangs, or the launcher ends
 * while it starts ranks. */
#ifndef KEEPER_H
#define KEEPER_H

#include <sys/types.h>

/* Makes the calling process, which `supervisor` has just forked, a keeper; never returns.  The
 * keeper forks a child that calls become(self); become() executes the launcher and does not return
 * either. When the launcher has ended, the keeper kills what it left behind on this machine, and
 * ends with the launcher's exit code, or 128 + its signal.  SIGTERM, which also comes when the
 * supervisor is gone, ends the launcher, after some seconds by force.  The keeper forwards SIGINT
 * to the launcher. */
void keeper_become(pid_t supervisor, void (*become)(const void *self), const void *self);

/* How long the supervisor waits after SIGTERM before it kills the keeper itself.  After that nobody
 * kills what the launcher left behind. */
enum { KEEPER_ENDS_MS = 15000 };

#endif
