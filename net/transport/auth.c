/* SPDX-License-Identifier: MIT */
/* auth.c: HMAC over SHA-256, and the job's key. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/transport/auth.h"

#define AUTH_BLOCK 64

static void auth_pad(struct gy_sha256 *sha, const unsigned char *key, unsigned char with)
{
    unsigned char block[AUTH_BLOCK];
    for (size_t i = 0; i < AUTH_BLOCK; i++)
        block[i] = (unsigned char)((i < GY_NET_KEY_BYTES ? key[i] : 0) ^ with);
    gy_sha256_open(sha);
    gy_sha256_add(sha, block, sizeof block);
}

GY_INT void gy_net_hmac_open(struct gy_sha256 *sha, const unsigned char key[GY_NET_KEY_BYTES])
{
    auth_pad(sha, key, 0x36);
}

GY_INT void gy_net_hmac_close(struct gy_sha256 *sha, const unsigned char key[GY_NET_KEY_BYTES], unsigned char mac[GY_NET_MAC_BYTES])
{
    unsigned char inner[GY_NET_MAC_BYTES];
    gy_sha256_close(sha, inner);
    auth_pad(sha, key, 0x5c);
    gy_sha256_add(sha, inner, sizeof inner);
    gy_sha256_close(sha, mac);
}

GY_INT void gy_net_hmac(const unsigned char key[GY_NET_KEY_BYTES], const struct gy_net_part *parts, size_t count,
                        unsigned char mac[GY_NET_MAC_BYTES])
{
    struct gy_sha256 sha;
    gy_net_hmac_open(&sha, key);
    for (size_t i = 0; i < count; i++)
        gy_sha256_add(&sha, parts[i].bytes, parts[i].count);
    gy_net_hmac_close(&sha, key, mac);
}

GY_INT int gy_net_same(const unsigned char *a, const unsigned char *b, size_t count)
{
    unsigned differ = 0;
    for (size_t i = 0; i < count; i++)
        differ |= (unsigned)a[i] ^ b[i];
    return differ == 0;
}

long syscall(long number, ...); /* not declared under strict POSIX */

GY_INT int gy_net_random(unsigned char *out, size_t count, struct gy_error *err)
{
#ifdef SYS_getrandom
    /* The system gives up to 256 bytes in one call. This comes first because a root folder may have
     * no /dev. */
    if (count <= 256 && syscall(SYS_getrandom, out, count, 0u) == (long)count)
        return GY_OK;
#endif
    const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    while (fd >= 0 && have < count) {
        const ssize_t n = read(fd, out + have, count - have);
        if (n <= 0 && errno != EINTR)
            break;
        have += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    return have == count ? GY_OK : GY_FAIL(err, GY_E_IO, "/dev/urandom gives no random bytes: %s", strerror(errno));
}

static int auth_digit(int c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int auth_parse(const char *path, const char *text, size_t count, unsigned char *key, struct gy_error *err)
{
    for (size_t i = 0; i < 2 * GY_NET_KEY_BYTES; i++) {
        const int digit = i < count ? auth_digit((unsigned char)text[i]) : -1;
        if (digit < 0)
            return GY_FAIL(err, GY_E_FORMAT, "%s: character %zu is no hexadecimal digit; a key has %d of them", path, i + 1,
                           2 * GY_NET_KEY_BYTES);
        key[i / 2] = (unsigned char)(i % 2 ? key[i / 2] | digit : digit << 4);
    }
    if (count > 2 * GY_NET_KEY_BYTES + 1 || (count > 2 * GY_NET_KEY_BYTES && text[2 * GY_NET_KEY_BYTES] != '\n'))
        return GY_FAIL(err, GY_E_FORMAT, "%s: there is more than a key of %d hexadecimal digits", path, 2 * GY_NET_KEY_BYTES);
    return GY_OK;
}

GY_INT int gy_net_key_read(const char *path, unsigned char key[GY_NET_KEY_BYTES], struct gy_error *err)
{
    char text[2 * GY_NET_KEY_BYTES + 3];
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return GY_FAIL(err, GY_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
    const int open_to_others = fstat(fd, &st) != 0 || (st.st_mode & 077) != 0 || st.st_uid != geteuid();
    const ssize_t n = read(fd, text, sizeof text);
    close(fd);
    if (open_to_others)
        return GY_FAIL(err, GY_E_ARG, "%s: a key may be read by its owner alone (chmod 600)", path);
    if (n < 0)
        return GY_FAIL(err, GY_E_IO, "%s: cannot be read: %s", path, strerror(errno));
    return auth_parse(path, text, (size_t)n, key, err);
}

GY_INT int gy_net_key_take(int fd, unsigned char key[GY_NET_KEY_BYTES], struct gy_error *err)
{
    char text[2 * GY_NET_KEY_BYTES];
    size_t have = 0;
    while (have < sizeof text) {
        const ssize_t n = read(fd, text + have, sizeof text - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return GY_FAIL(err, GY_E_IO, "the open file %d gives %zu of a key's %zu digits; it can be read "
                           "once: a process that a launcher started opens one job", fd, have, sizeof text);
        have += (size_t)n;
    }
    return auth_parse("the key's open file", text, have, key, err);
}

GY_INT void gy_net_key_text(const unsigned char key[GY_NET_KEY_BYTES], char text[2 * GY_NET_KEY_BYTES + 1])
{
    for (size_t i = 0; i < GY_NET_KEY_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", key[i]);
}

