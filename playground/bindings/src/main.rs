//! Writes the JavaScript beside a module: `playground-bindings MODULE.wasm FOLDER`.

use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [module, folder] = &args[..] else {
        eprintln!("usage: playground-bindings MODULE.wasm FOLDER");
        return ExitCode::FAILURE;
    };
    match write(module, folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write the bindings of {module}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(module: &str, folder: &str) -> Result<(), String> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).out_name("playground").typescript(false).omit_default_module_path(false);
    bindgen.remove_name_section(true).remove_producers_section(true);
    bindgen.web(true).map_err(|error| error.to_string())?;
    bindgen.generate(folder).map_err(|error| format!("{error:?}"))
}
