/* SPDX-License-Identifier: MIT */
/* code.c: both codes begin with their number, in this machine's order of bytes. The bytes of sums
 * have that order, too, and the handshake refuses a machine of another order. */
#include "net/transport/code.h"

static void code_begin(struct gy_net_code *code)
{
    const uint64_t number = code->made++;
    code->crc = 0;
    if (code->kind == GY_NET_CODE_HMAC)
        gy_net_hmac_open(&code->sha, code->key);
    gy_net_code_add(code, &number, sizeof number);
}

GY_INT void gy_net_code_open(struct gy_net_code *code, enum gy_net_code_kind kind, const unsigned char key[GY_NET_KEY_BYTES])
{
    memset(code, 0, sizeof *code);
    code->kind = kind;
    memcpy(code->key, key, sizeof code->key);
    code_begin(code);
}

GY_INT void gy_net_code_add(struct gy_net_code *code, const void *bytes, size_t count)
{
    if (code->kind == GY_NET_CODE_HMAC)
        gy_sha256_add(&code->sha, bytes, count);
    else
        code->crc = gy_crc32c(code->crc, bytes, count);
}

GY_INT void gy_net_code_close(struct gy_net_code *code, unsigned char out[GY_NET_CODE_BYTES])
{
    memset(out, 0, GY_NET_CODE_BYTES);
    if (code->kind == GY_NET_CODE_HMAC)
        gy_net_hmac_close(&code->sha, code->key, out);
    else
        memcpy(out, &code->crc, sizeof code->crc);
    code_begin(code);
}

GY_INT int gy_net_code_parse(const char *name, enum gy_net_code_kind *out, struct gy_error *err)
{
    static const char *const names[] = {[GY_NET_CODE_CRC] = "crc", [GY_NET_CODE_HMAC] = "hmac"};
    for (size_t i = 0; i < GY_COUNT(names); i++)
        if (!name || name[0] == 0 || strcmp(name, names[i]) == 0) {
            *out = (enum gy_net_code_kind)i;
            return GY_OK;
        }
    return GY_FAIL(err, GY_E_ARG, "GYRE_NET_CODE is \"%.60s\"; it must be crc or hmac", name);
}
