/* watch FD BYTES WORD: how often a word of shared memory, looked at all the time, is 0; the end is when it is 99. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	volatile uint32_t *words = argc == 4 ? mmap(NULL, atoi(argv[2]), PROT_READ, MAP_SHARED, atoi(argv[1]), 0) : MAP_FAILED;
	uint32_t now = 1, at = argc == 4 ? atoi(argv[3]) : 0;
	long zeros = 0;

	if (words == MAP_FAILED)
		return 1;
	printf("watching\n");
	fflush(stdout);
	while (now != 99) {
		now = words[at];
		zeros += !now;
	}
	printf("%ld\n", zeros);
	return 0;
}
