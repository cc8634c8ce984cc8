#!/usr/bin/env bash
# Runs doxygen over the public headers and fails on what it warns about. Usage: check_docs.sh DOXYFILE SOURCE_FOLDER
# Exit status 77: skipped, since doxygen is not there.
#
# Every type and every function of the namespace wants a comment. Members do not: a field, an accessor or a constructor
# whose name and type say all would only get an echo.
set -euo pipefail
doxyfile=$1
if ! command -v doxygen >/dev/null; then
  echo "skipped: there is no doxygen (scripts/setup.sh --checks installs it)"
  exit 77
fi
cd "$2"
warnings=$(dirname "$doxyfile")/warnings.txt
rm -f "$warnings"
doxygen "$doxyfile"
[ -f "$(dirname "$doxyfile")/html/classsectionflow_1_1Session.html" ] || { echo "no page of Session was made" >&2; exit 1; }
if grep -vE 'Member .* \((variable|typedef|friend)\) of .* is not documented|Member .*\(function\) of (class|struct) .* is not documented' \
  "$warnings"; then
  exit 1
fi
