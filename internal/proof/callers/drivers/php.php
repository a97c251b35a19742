<?php
require 'sluice.php';
[, $host, $port, $folder] = $argv;
$sluice = Sluice::connect($host, (int) $port, $folder);
while (($line = fgets(STDIN)) !== false) {
    [$name, $count, $words] = array_pad(explode(' ', trim($line), 3), 3, '');
    $words = array_map(fn ($word) => hex2bin(trim($word, '-')), $words === '' ? [] : explode(' ', $words));
    try {
        $reply = $sluice->call($name, array_slice($words, 0, (int) $count), array_slice($words, (int) $count));
        echo implode(' ', $reply), "\n";
    } catch (Exception $error) {
        echo '!', $error->getMessage(), "\n";
    }
}
