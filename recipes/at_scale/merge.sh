#!/bin/bash
# Joins the N parts of OUTPUT that translate.sbatch made from INPUT, and checks the number of lines.
#
#   bash recipes/at_scale/merge.sh INPUT OUTPUT N
set -euo pipefail
input=$1 output=$2 n=$3
parts=()
for ((i = 1; i <= n; i++)); do
    if [ ! -e "$output.$i" ]; then
        echo "merge: error: Part $i is missing: $output.$i. Run the job again." >&2
        exit 2
    fi
    parts+=("$output.$i")
done
trap 'rm -f "$output.new"' EXIT
cat "${parts[@]}" > "$output.new"
case $(head -c 10 "$input" | od -An -tx1 | tr -d ' ') in # nmt also goes by the content
    1f8b*) unpack="gzip -dc" ;;
    425a683[1-9]314159265359* | 425a683[1-9]177245385090*) unpack="bzip2 -dc" ;;
    fd377a585a00*) unpack="xz -dc" ;;
    *) unpack=cat ;;
esac
expected=$($unpack < "$input" | awk 'END { print NR }') # the last line may lack a newline
found=$(wc -l < "$output.new")
if [ "$found" -ne "$expected" ]; then
    echo "merge: error: $output would have $found lines instead of $expected." \
        "Check that all parts were made with --array 1-$n." >&2
    exit 2
fi
mv "$output.new" "$output"
