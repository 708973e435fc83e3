#!/bin/sh
# The archive of the library as it is installed: one object in which only names with default visibility (COHORT_API) are
# external, so that a program may have functions of any other name.
# usage: make_archive.sh PARTS OUT AR OBJCOPY COMPILER...
set -eu
parts=$1 out=$2 ar=$3 objcopy=$4
shift 4
dir=$out.tmp
object=$dir/cohort.o
trap 'rm -rf "$dir"' EXIT
rm -rf "$dir" "$out"
mkdir "$dir"
"$@" -r -nostdlib -o "$object" -Wl,--whole-archive "$parts" -Wl,--no-whole-archive
"$objcopy" --localize-hidden "$object"
"$ar" rcsD "$out" "$object"
