#!/bin/sh
# Writes an assembler source that embeds the given files, with the table that embedded.h declares. The
# first argument is the format of object files: elf, or wasm with pointers of 32 bits.
set -eu
format=$1
shift
name_of() {
    case $1 in
    */web/dist/*) echo "web/${1##*/web/dist/}" ;;
    *) echo "${1#config/}" ;;
    esac
}
# symbol SECTION NAME SIZE: begins what has a name and a size.
symbol() {
    if [ "$format" = wasm ]; then
        printf '.section %s,"",@\n.type %s,@object\n.size %s,%d\n' "$1.$2" "$2" "$2" "$3"
    fi
}
pointer=.quad
if [ "$format" = wasm ]; then
    pointer=.int32
else
    printf '.section .rodata\n'
fi
i=0
for file in "$@"; do
    name=$(name_of "$file")
    symbol .rodata "d$i" $(($(wc -c <"$file") + 1))
    printf '.p2align 6\nd%d: .incbin "%s"\n.byte 0\n' "$i" "$file"
    symbol .rodata "n$i" $((${#name} + 1))
    printf 'n%d: .asciz "%s"\n' "$i" "$name"
    i=$((i + 1))
done
if [ "$format" = wasm ]; then
    symbol .data srv_embedded $(((i + 1) * 12))
else
    printf '.section .data.rel.ro,"aw"\n'
fi
printf '.p2align 3\n.globl srv_embedded\nsrv_embedded:\n'
j=0
for file in "$@"; do
    printf "$pointer %s\n" "n$j" "d$j" $(($(wc -c <"$file")))
    j=$((j + 1))
done
printf "$pointer %d\n" 0 0 0
if [ "$format" = elf ]; then
    printf '.section .note.GNU-stack,"",@progbits\n'
fi
