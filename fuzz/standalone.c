/* standalone.c - runs a fuzz target over files, without a fuzzer.
 *
 * libFuzzer needs clang. With this file in its place, plain gcc makes of every target an ordinary
 * program whose arguments are input files: so the whole corpus, and every input that ever crashed,
 * is an ordinary test.
 *
 * Each input is handed over in memory of exactly its size, so that a memory checker sees a read
 * past the end.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Read a file of any size below the limit into memory of its own; NULL if that cannot be. */
static uint8_t *file_get(const char *path, size_t *size)
{
    const long size_max = 1L << 24;
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    if (file == NULL)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        long end = ftell(file);
        if (end >= 0 && end <= size_max && fseek(file, 0, SEEK_SET) == 0) {
            *size = (size_t)end;
            data = malloc(*size > 0 ? *size : 1);
            if (data != NULL && fread(data, 1, *size, file) != *size) {
                free(data);
                data = NULL;
            }
        }
    }
    fclose(file);
    return data;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        size_t size = 0;
        uint8_t *data = file_get(argv[i], &size);
        if (data == NULL) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 1;
        }
        /* Said before the call: if the target stops here, this names the input. */
        fprintf(stderr, "%s\n", argv[i]);
        (void)LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    printf("%d inputs\n", argc - 1);
    return argc < 2;
}
