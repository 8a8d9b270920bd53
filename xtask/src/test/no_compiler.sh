#!/bin/sh
# In the place of a C compiler where nothing is linked: writes an empty file instead of an object. The real one says what
# kind of compiler it is.
case "$1" in -E | -'?' | --version | -v | -dump*) exec cc "$@" ;; esac
for word; do
    [ "$before" = -o ] && : > "$word"
    before=$word
done
:
