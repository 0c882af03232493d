/* A process between a host and a server that does nothing but move bytes: the least that anything costs.
 *
 * relay COMMAND WORD…: starts the command, and moves bytes both ways until one side ends. relay.py is the same in Python.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

int main(int count, char **words)
{
    static char data[1 << 16];
    int in[2], out[2];
    if (count < 2 || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        return 2;
    if (fork() == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execv(words[1], words + 1);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    struct pollfd sources[2] = {{0, POLLIN, 0}, {out[0], POLLIN, 0}};
    int sinks[2] = {in[1], 1};
    for (;;) {
        if (poll(sources, 2, -1) < 0)
            return 1;
        for (int way = 0; way < 2; way++) {
            if (!sources[way].revents)
                continue;
            ssize_t size = read(sources[way].fd, data, sizeof data);
            if (size <= 0)
                return 0;
            for (ssize_t done = 0, now; done < size; done += now)
                if ((now = write(sinks[way], data + done, size - done)) < 0)
                    return 0;
        }
    }
}
