#!/bin/sh
# Writes an assembler source that embeds the given files, with the table that embedded.h declares.
set -eu
printf '.section .rodata\n'
i=0
for file in "$@"; do
    case $file in
    */web/dist/*) name=web/${file##*/web/dist/} ;;
    *) name=${file#config/} ;;
    esac
    printf '.balign 64\nd%d: .incbin "%s"\ne%d: .byte 0\nn%d: .asciz "%s"\n' "$i" "$file" "$i" "$i" "$name"
    i=$((i + 1))
done
printf '.section .data.rel.ro,"aw"\n.balign 8\n.global srv_embedded\nsrv_embedded:\n'
j=0
while [ "$j" -lt "$i" ]; do
    printf '.quad n%d, d%d, e%d - d%d\n' "$j" "$j" "$j" "$j"
    j=$((j + 1))
done
printf '.quad 0, 0, 0\n.section .note.GNU-stack,"",@progbits\n'
