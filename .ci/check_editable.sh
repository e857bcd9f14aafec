#!/usr/bin/env bash
# check_editable.sh PYTHON FOLDER: after an edit of a C source, an editable install says how to rebuild, or is rebuilt.
set -euo pipefail
git clone -q . "$2/src"
"$1" -m venv "$2/venv"
"$2/venv/bin/pip" install -q -e "$2/src"
probe='import backends; s = backends.get("native").probe(); print(s.ok, s.reason, s.cure)'
(cd / && "$2/venv/bin/python" -c "$probe") | grep '^True'
sed -i '1i /* edited */' "$2/src/cpu/gemm.c"
after=$(cd / && "$2/venv/bin/python" -c "$probe" 2>&1)
echo "after an edit of cpu/gemm.c: $after"
grep -qi 'pip install' <<<"$after"
"$2/venv/bin/pip" install -q -e "$2/src"
(cd / && "$2/venv/bin/python" -c "$probe") | grep '^True'
