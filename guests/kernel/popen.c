//! Reads from and writes to shell commands through popen.
//! children: SHOUT
#include "guest.h"
#include <sys/wait.h>

int main(void)
{
    char line[64];
    FILE *from = popen("printf 'b\\na\\nc\\n' | sort; exit 6", "r");
    must(from != NULL);
    while (fgets(line, sizeof line, from))
        printf("got %s", line);
    printf("%d\n", WEXITSTATUS(pclose(from)));
    fflush(stdout);
    FILE *to = popen("tr a-z A-Z", "w");
    must(to != NULL && fputs("shout\n", to) >= 0);
    printf("%d\n", pclose(to));
    return 0;
}
