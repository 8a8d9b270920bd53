local known_time -- only a script for many names knows it already

