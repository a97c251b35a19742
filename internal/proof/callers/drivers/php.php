<?php
require 'sluice.php';
$at = parse_url(getenv('SLUICE_REDIS'));
$sluice = null;
while (($line = fgets(STDIN)) !== false) {
    $call = json_decode($line);
    try {
        $sluice ??= Sluice::connect($at['host'], $at['port'], getenv('SLUICE_SCRIPTS'));
        $reply = $sluice->call($call->script, array_map('hex2bin', $call->keys), array_map('hex2bin', $call->args));
        $said = ['granted' => $reply[0] > 0, 'reply' => $reply];
    } catch (SluiceError $error) {
        $said = ['error' => $error->getMessage(), 'kind' => 'refused'];
    } catch (Exception $error) {
        $said = ['error' => $error->getMessage(), 'kind' => 'unknown'];
    }
    echo json_encode(['id' => $call->id] + $said, JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
