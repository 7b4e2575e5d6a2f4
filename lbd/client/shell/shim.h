/* Made by deploy/generate from lbd.client.shell.shim: do not change it. */

#define NAMELY \
    " ar b2sum base32 base64 bison bunzip2 bzcat bzip2 cksum comm cpio csplit diff3 expand factor flex" \
    " fmt fold join lzma m4 md5sum numfmt od patch pr ptx ranlib sdiff sha1sum sha224sum sha256sum" \
    " sha384sum sha512sum shuf size sort split strings strip sum tac tar tsort unexpand unxz xz xzcat" \
    " "
